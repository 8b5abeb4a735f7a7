package httpapi

import "github.com/nesoserve/neso/internal/kserve/jsonwire"

// The documents of the API, for who asks without a connection. Errors are those
// of the engine.

// Metadata is the server's.
func (s *Server) Metadata() []byte { return s.metadata() }

// ModelMetadata is that of a model; version -1 lists all ready ones.
func (s *Server) ModelMetadata(name string, version int64) ([]byte, error) {
	cfg, versions, err := s.engine.Model(name, version)
	if err != nil {
		return nil, err
	}
	return jsonwire.AppendModelMetadata(nil, cfg, versions), nil
}

// Statistics are those of a model, or of all for the empty name; version -1 means all.
func (s *Server) Statistics(name string, version int64) ([]byte, error) {
	return s.statistics(nil, name, version)
}

// Index lists the models of the repositories; ready leaves out the others.
func (s *Server) Index(ready bool) ([]byte, error) {
	entries, err := s.engine.Index(ready)
	if err != nil {
		return nil, err
	}
	b := []byte{'['}
	for i := range entries {
		e := &entries[i]
		b = jsonwire.AppendIndexEntry(b, i, e.Name, e.Version, e.State, e.Reason)
	}
	return append(b, ']'), nil
}
