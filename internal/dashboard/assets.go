package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strconv"
)

// The files are made from web/ by `make web`.
//
//go:embed assets
var assets embed.FS

// asset is a file of the page.
type asset struct {
	kind, tag string
	body      []byte
}

var kinds = map[string]string{
	"index.html": "text/html; charset=utf-8",
	"main.js":    "text/javascript; charset=utf-8",
	"style.css":  "text/css; charset=utf-8",
}

// securityPolicy lets the page load, and ask, nobody but this server. Images that it
// shows are drawn by itself, or given by the user.
const securityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func readAssets() (map[string]*asset, error) {
	all := map[string]*asset{}
	for name, kind := range kinds {
		body, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(body)
		all[name] = &asset{kind, `"` + hex.EncodeToString(sum[:12]) + `"`, body}
	}
	return all, nil
}

// serve answers with the file, or that the browser has it. Browsers ask each time:
// the page must be that of the server that answers it.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	protect(h)
	h.Set("Content-Security-Policy", securityPolicy)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", a.tag)
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.kind)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(a.body) // the browser is gone
	}
}

// protect keeps browsers from guessing what an answer is, and from telling others of
// the page.
func protect(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}
