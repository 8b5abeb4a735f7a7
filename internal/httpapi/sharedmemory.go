package httpapi

import (
	"net"
	"net/http"
	"net/url"

	"github.com/nesoserve/neso/internal/kserve"
	"github.com/nesoserve/neso/internal/shm"
)

// seenBy returns the shared memory as the sender of r sees it.
func seenBy(r *http.Request, all *shm.Registry) *shm.Registry {
	network := "tcp"
	// The address of a client of a Unix socket is empty.
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		network = a.Network()
	}
	proxied := false
	for _, h := range shm.ProxyHeaders {
		proxied = proxied || len(r.Header[h]) > 0
	}
	return all.For(network, r.RemoteAddr, proxied)
}

// sharedMemory shows, registers and unregisters regions.
func (s *Server) sharedMemory(r *http.Request, t target, body []byte) ([]byte, error) {
	memory := seenBy(r, s.engine.SharedMemory())
	// Clients send the name encoded, and use it plain in inferences.
	name, err := url.PathUnescape(t.name)
	if err != nil {
		name = t.name
	}
	switch {
	case t.endpoint == memoryStatus:
		regions, err := memory.Regions(t.memory, name)
		if err != nil {
			return nil, err
		}
		return kserve.AppendRegions(nil, regions), nil
	case t.endpoint == memoryUnregister:
		return nil, memory.Unregister(t.memory, name)
	case memory == nil:
		// Before what the body says, as the peer has it.
		return nil, memory.RegisterSystem("", "", 0, 0)
	case name == "":
		return nil, shm.NoName(t.memory)
	case t.memory == shm.CUDA:
		q, err := kserve.DecodeCUDARegion(body)
		if err != nil {
			return nil, err
		}
		return nil, memory.RegisterCUDA(name, q.Handle, q.Device, q.ByteSize)
	default:
		q, err := kserve.DecodeSystemRegion(body)
		if err != nil {
			return nil, err
		}
		return nil, memory.RegisterSystem(name, q.Key, q.Offset, q.ByteSize)
	}
}
