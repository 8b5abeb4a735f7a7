package shm

import "net/netip"

// Access says which clients may use shared memory.
type Access uint8

// LocalPeers are clients on the server's own machine: their connection comes
// from a loopback address or over a Unix socket, and no proxy says that it stands
// in between, nor a page in a browser. Only they can share memory with the server.
const (
	LocalPeers Access = iota
	Everyone
	Nobody
)

// For returns the registry as a client sees it whose connection comes from the
// address of the network, as net.Addr gives them: r, or nil for no access.
// Proxied says that the request names a client behind that address.
func (r *Registry) For(network, address string, proxied bool) *Registry {
	switch {
	case r == nil || r.o.Access == Nobody:
		return nil
	case r.o.Access == Everyone || !proxied && local(network, address):
		return r
	}
	return nil
}

// ProxyHeaders are the headers, in their canonical form, by which proxies name
// the client they speak for, and browsers the site whose page sends a request.
var ProxyHeaders = [...]string{"Forwarded", "Origin", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

// local reports whether a connection from the address comes from this machine.
func local(network, address string) bool {
	switch network {
	case "unix", "unixpacket":
		return true
	}
	return Loopback(address)
}

// Loopback reports whether an address with a port is one of this machine alone.
func Loopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Unmap().IsLoopback()
}
