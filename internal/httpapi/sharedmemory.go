package httpapi

import (
	"net/http"
	"net/url"

	"github.com/nesoserve/neso/internal/kserve/jsonwire"
	"github.com/nesoserve/neso/internal/shm"
)

// seenBy returns the shared memory as the sender of r sees it.
func (s *Server) seenBy(r *http.Request) *shm.Registry {
	address, network := peer(r)
	_, why := s.foreign(r)
	proxied := why != ""
	for _, h := range shm.ProxyHeaders {
		proxied = proxied || len(r.Header[h]) > 0
	}
	return s.engine.SharedMemory().For(network, address, proxied)
}

// sharedMemory shows, registers and unregisters regions.
func (s *Server) sharedMemory(r *http.Request, t target, body []byte) ([]byte, error) {
	memory := s.seenBy(r)
	if memory == nil {
		if reason, why := s.foreign(r); why != "" {
			s.refused(r, reason, why)
		}
	}
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
		return jsonwire.AppendRegions(nil, regions), nil
	case t.endpoint == memoryUnregister:
		return nil, memory.Unregister(t.memory, name)
	case memory == nil:
		// Before what the body says, as the peer has it.
		return nil, memory.RegisterSystem("", "", 0, 0)
	case name == "":
		return nil, shm.NoName(t.memory)
	case t.memory == shm.CUDA:
		q, err := jsonwire.DecodeCUDARegion(body)
		if err != nil {
			return nil, err
		}
		return nil, memory.RegisterCUDA(name, q.Handle, q.Device, q.ByteSize)
	default:
		q, err := jsonwire.DecodeSystemRegion(body)
		if err != nil {
			return nil, err
		}
		return nil, memory.RegisterSystem(name, q.Key, q.Offset, q.ByteSize)
	}
}
