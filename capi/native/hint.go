package native

import "strings"

// hint says what to do about what the loader says.
func hint(said string) string {
	name, _, ok := strings.Cut(said, ": cannot open shared object file")
	switch {
	case ok && !strings.Contains(name, "/"):
		return "; install " + name + ", or name its folder in LD_LIBRARY_PATH of the server"
	case strings.Contains(said, "undefined symbol: TRITON"):
		return "; the library was made for a newer server"
	case strings.Contains(said, "version `GLIBC"):
		return "; the library was made for a newer system"
	}
	return ""
}
