package library

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
