package openapi

import _ "embed"

// The pages that show the document. They ask nobody but the server that they came
// from, and take what it says as text.
var (
	//go:embed viewer/index.html
	index []byte
	//go:embed viewer/view.js
	script []byte
	//go:embed viewer/view.css
	style []byte
)

// Page is a file of the viewer.
type Page struct {
	ContentType string
	Body        []byte
}

// SecurityPolicy is the Content-Security-Policy that the pages are sent with.
const SecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; " +
	"form-action 'self'; frame-ancestors 'none'"

// Viewer returns the page at path, which is "/docs" or below it; false if there is none.
func Viewer(path string) (Page, bool) {
	switch path {
	case "/docs":
		return Page{"text/html; charset=utf-8", index}, true
	case "/docs/view.js":
		return Page{"text/javascript; charset=utf-8", script}, true
	case "/docs/view.css":
		return Page{"text/css; charset=utf-8", style}, true
	default:
		return Page{}, false
	}
}
