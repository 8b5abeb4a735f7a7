package dashboard

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/nesoserve/neso/internal/engine"
	"github.com/nesoserve/neso/internal/gpu"
	"github.com/nesoserve/neso/internal/httpapi"
	"github.com/nesoserve/neso/internal/logging"
	"github.com/nesoserve/neso/internal/responsecache"
)

// Root is where the page is, without the slash.
const Root = "/dashboard"

// header is what the page sends with each request, and no page of another site can.
const header = "X-Neso-Dashboard"

// Options configure the dashboard. API and Engine are needed.
type Options struct {
	// API is the HTTP API of the server, Engine the server.
	API    *httpapi.Server
	Engine *engine.Engine
	// Log is that of the server, whose last lines are shown to who may do more than
	// read; nil shows none.
	Log *logging.Log
	// GPUs reads those of the machine, Cache the numbers of the response cache; nil
	// without.
	GPUs  func() []gpu.Reading
	Cache func() responsecache.Numbers
	// NoConfigs leaves the configurations to the HTTP API, which asks for a header.
	NoConfigs bool
	// Open says that whoever reaches the dashboard may do what the HTTP API lets
	// them: keys or certificates are asked for, or the dashboard has a listener of its
	// own. Else other machines read only: that they reach the metrics does not mean
	// that they may use the models.
	Open bool
	// Keys says that the server asks for keys.
	Keys bool
	// Version is the server's.
	Version string
	// HTTP is where clients reach the HTTP API, nil for nowhere; TLS, whether it speaks
	// that.
	HTTP net.Addr
	TLS  bool
}

// Server serves the page.
type Server struct {
	o     Options
	files map[string]*asset
	api   http.Handler

	started time.Time
	sampler sampler
	machine machine // of the sampler's loop
}

// New returns a dashboard. It starts nothing.
func New(o Options) (*Server, error) {
	files, err := readAssets()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, files: files, api: http.StripPrefix(Root+"/api", o.API), started: time.Now()}
	s.sampler.standings = func() []engine.Standing { return o.Engine.Standings("") }
	s.sampler.server, s.sampler.watch = s.state, o.Engine.Recent().Watch
	if o.Log != nil {
		o.Log.KeepTail()
	}
	return s, nil
}

// Close ends the feeds. What else is being answered is for the HTTP server.
func (s *Server) Close() { s.sampler.close() }

// writeTimeout bounds the answers of the other handler, and of files.
const writeTimeout = time.Minute

// Beside returns a handler that serves the dashboard at its paths, and all others by
// next.
func (s *Server) Beside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.SetWriteDeadline(time.Now().Add(writeTimeout)) // tests have writers without
		if r.URL.Path != Root && !strings.HasPrefix(r.URL.Path, Root+"/") {
			next.ServeHTTP(w, r)
			return
		}
		s.serve(w, r, c)
	})
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, c *http.ResponseController) {
	path := strings.TrimPrefix(r.URL.Path, Root)
	if api := strings.TrimPrefix(path, "/api"); api == "/openapi.json" || api == "/v2" || strings.HasPrefix(api, "/v2/") ||
		strings.HasPrefix(api, "/v1/") {
		_ = c.SetWriteDeadline(time.Time{}) // the API has times of its own
		s.serveAPI(w, r)
		return
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		s.refuse(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	case path == "":
		http.Redirect(w, r, Root+"/", http.StatusMovedPermanently)
	case path == "/about" || path == "/feed" || path == "/model" || path == "/chats":
		s.tell(w, r, path)
	default:
		name := strings.TrimPrefix(path, "/")
		if name == "" {
			name = "index.html"
		}
		if a := s.files[name]; a != nil {
			a.serve(w, r) // it says nothing of this server, and is where a key is given
			return
		}
		s.refuse(w, http.StatusNotFound, "Not Found")
	}
}

// tell answers what the page asks beside the API.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, path string) {
	if !s.ours(w, r) {
		return
	}
	switch path {
	case "/about":
		s.about(w, r)
	case "/feed":
		s.feed(w, r)
	case "/model":
		s.model(w, r)
	case "/chats":
		s.chats(w, r)
	}
}

// serveAPI hands a request to the HTTP API, if it is the page's.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if !s.ours(w, r) {
		return
	}
	if !s.mayUse(r) && r.Method != http.MethodGet && r.URL.Path != Root+"/api/v2/repository/index" {
		s.refuse(w, http.StatusForbidden, "without keys (auth-file) the dashboard of the metrics listener is for reading only, "+
			"but from the machine of the server; a dashboard-address of its own is for all")
		return
	}
	s.api.ServeHTTP(w, r)
}

// ours reports whether the page has sent r, or a program; if not it answers.
func (s *Server) ours(w http.ResponseWriter, r *http.Request) bool {
	if why := s.o.API.Foreign(r); why != "" {
		s.refuse(w, http.StatusForbidden, "the dashboard does not answer this request: "+why)
		return false
	}
	if r.Header.Get(header) == "" {
		s.refuse(w, http.StatusForbidden, "the dashboard answers its page only; the HTTP API is at the HTTP port")
		return false
	}
	return true
}

// mayUse reports whether r may do more than read, if its key may.
func (s *Server) mayUse(r *http.Request) bool {
	if s.o.Open {
		return true
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err != nil || from.Addr().Unmap().IsLoopback() // a Unix socket has no such address
}

func reply(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	protect(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // the page is gone
}

func (s *Server) refuse(w http.ResponseWriter, status int, why string) {
	body, _ := json.Marshal(struct { //nolint:errchkjson // a string can always be encoded
		Error string `json:"error"`
	}{why})
	protect(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone
}
