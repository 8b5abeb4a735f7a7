package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/nesoserve/neso/internal/openapi"
)

// TestEveryEndpointIsDescribed holds the description against the routes: each path of
// it leads somewhere, by the methods that it names and no others, and each endpoint has
// a path.
func TestEveryEndpointIsDescribed(t *testing.T) {
	raw, err := openapi.Document(openapi.Server{Version: "2.51.0", OpenAI: &openapi.OpenAI{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	described := map[endpoint]bool{
		apiDescription: true, apiViewer: true,
	}
	for path, methods := range doc.Paths {
		real := strings.NewReplacer("{model}", "m", "{version}", "1", "{region}", "r").Replace(path)
		to := route(real).endpoint
		if to == notFound {
			to = routeOpenAI(real).endpoint
		}
		if to == notFound {
			t.Errorf("%s is described and leads nowhere", path)
			continue
		}
		described[to] = true
		_, get := methods["get"]
		_, post := methods["post"]
		if e := endpoints[to]; get != e.get || post != e.post || len(methods) != len([]bool{get, post})-btoi(!get)-btoi(!post) {
			t.Errorf("%s is described with %v, and has get %v, post %v", path, methods, e.get, e.post)
		}
	}
	for e := notFound + 1; e < endpointCount; e++ {
		if !described[e] {
			t.Errorf("endpoint %d has no description", e)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestDescriptionRoutes: what describes the API has one spelling, and GET alone.
func TestDescriptionRoutes(t *testing.T) {
	for path, want := range map[string]endpoint{
		"/openapi.json": apiDescription, "/openapi.json/": notFound, "/openapi": notFound,
		"/docs": apiViewer, "/docs/": notFound, "/docs/view.js": apiViewer, "/docs/view.css": apiViewer, "/docs/../v2": notFound,
		"/docs/index.html": notFound,
	} {
		if got := route(path).endpoint; got != want {
			t.Errorf("%s leads to %d, want %d", path, got, want)
		}
	}
	for _, e := range []endpoint{apiDescription, apiViewer} {
		if endpoints[e].post || !endpoints[e].get {
			t.Errorf("endpoint %d may be called with %+v, want %s alone", e, endpoints[e], http.MethodGet)
		}
	}
}

// A model that is asked for often is described once.
func TestDescribedOnce(t *testing.T) {
	c := dial(t, serve(t, nil, nil))
	once := c.do("GET", "/openapi.json?model=fp32&model=two", nil, nil)
	often := c.do("GET", "/openapi.json?model=two"+strings.Repeat("&model=fp32", 1000), nil, nil)
	if once.StatusCode != 200 || string(once.body) != string(often.body) {
		t.Errorf("%d, %d bytes; once %d, %d bytes", often.StatusCode, len(often.body), once.StatusCode, len(once.body))
	}
}
