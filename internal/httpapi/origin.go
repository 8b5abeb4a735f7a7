package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/internal/refusals"
	"github.com/nesoserve/neso/internal/shm"
)

// A page in a browser can send requests to whatever the browser reaches, the
// server of its user's machine too: its own requests under the page's origin, and
// with a name that its site has let point here (DNS rebinding) under that name.
// What changes the server, or shares memory with it, is not for them.

// ours reports whether host, perhaps with a port, is a name that this server is
// known by: an address, a name of the local network or this machine, or one that its operator says. A
// site of somebody else can have none of these.
func (s *Server) ours(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") || name == machine() {
		return true // no site of the internet has a name without a dot
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return s.trusted(name)
}

var machine = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return strings.ToLower(name)
})

// foreign returns why r, which changes the server, is not taken, or "". Clients
// that are no browsers send no origin. The name they ask for is looked at where
// they come from this machine, where a browser of its user does: other machines
// know the server by names that it does not know itself.
func (s *Server) foreign(r *http.Request) (reason refusals.Reason, why string) {
	for _, origin := range r.Header["Origin"] {
		from, err := url.Parse(origin)
		if err != nil || from.Host == "" || !s.ours(from.Host) || !strings.EqualFold(from.Host, r.Host) && !s.trusted(from.Hostname()) {
			return refusals.Origin, "it comes from a page of '" + origin + "'"
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && len(r.Header["Origin"]) == 0 {
		return refusals.Origin, "it comes from a page of another site"
	}
	if _, network := peer(r); network == "tcp" && shm.Loopback(r.RemoteAddr) && r.Host != "" && !s.ours(r.Host) {
		return refusals.Host, "it is for a server named '" + r.Host + "'"
	}
	return 0, ""
}

// trusted reports whether the operator has named host.
func (s *Server) trusted(host string) bool {
	for _, pattern := range s.o.TrustedHosts {
		if ok, _ := path.Match(strings.ToLower(pattern), strings.ToLower(host)); ok {
			return true
		}
	}
	return false
}

func (s *Server) refusal(why string) *backend.Error {
	return backend.Errorf(backend.PermissionDenied,
		"this request changes the server, and %s: it is refused. Names by which a proxy or a page of yours knows the server go into "+
			s.o.Words.Name("http-trusted-host"), why)
}

// peer returns the address of the sender of r and its network. The address of a
// client of a Unix socket is empty.
func peer(r *http.Request) (address, network string) {
	network = "tcp"
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		network = a.Network()
	}
	return r.RemoteAddr, network
}
