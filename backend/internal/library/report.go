package library

import "github.com/nesoserve/neso/backend"

// Report is what `neso backends` says of a backend.
type Report struct {
	// Backend is its name, Version that of the library.
	Backend, Version string
	// Library is the file that was found and who named it, or what else runs the
	// models.
	Library string
	// Devices are what it can run on, for example "CPU".
	Devices []string
	// Err says what is missing, and what to install; nil when all is there.
	Err error
}

// Describe looks for the library of a backend, opens it, and lets ask fill in
// the version and the devices. The arguments are those of LocationsFor.
func (s *Spec) Describe(server backend.Settings, python func(option string) (string, error), ask func(*Library, *Report) error) Report {
	r := Report{Backend: s.Backend}
	lib, err := s.Open(s.LocationsFor(nil, server, python))
	if err != nil {
		r.Err = err
		return r
	}
	r.Library = lib.Path + " (" + lib.Source + ")"
	r.Err = ask(lib, &r)
	return r
}
