package worker

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// Parameters of a model that limit its workers, each of them by itself.
const (
	paramMemory    = "WORKER_MEMORY_BYTES"
	paramOpenFiles = "WORKER_OPEN_FILES"
	paramCPU       = "WORKER_CPU_SECONDS"
)

// Limits bound what one worker process may use; 0 means no bound of ours.
type Limits struct {
	// Memory is bytes of its own, writable memory. The shared memory of tensors does
	// not count, nor do libraries.
	Memory uint64 `json:"memory,omitempty"`
	// OpenFiles is how many descriptors it may have.
	OpenFiles uint64 `json:"open_files,omitempty"`
	// CPU is seconds of CPU time over its whole life; a worker that has used them is
	// ended and replaced.
	CPU uint64 `json:"cpu,omitempty"`
}

// leastFiles is what a worker needs for itself.
const leastFiles = 32

// LimitsOf reads the limits in the parameters of a model.
func LimitsOf(parameters map[string]string) (l Limits, err error) {
	for _, p := range []struct {
		name  string
		least uint64
		to    *uint64
	}{{paramMemory, 1 << 20, &l.Memory}, {paramOpenFiles, leastFiles, &l.OpenFiles}, {paramCPU, 1, &l.CPU}} {
		text, ok := parameters[p.name]
		if !ok {
			continue
		}
		n, ok := parseSize(text)
		if !ok || n < p.least {
			return Limits{}, backend.Errorf(backend.InvalidArg, "Incorrect value for %s: '%s' is not a number from %d on", p.name, text, p.least)
		}
		if !canConfine {
			return Limits{}, backend.Errorf(backend.Unsupported, "%s: workers are limited on Linux only", p.name)
		}
		*p.to = n
	}
	return l, nil
}

// LimitParameters are the parameters of a model that LimitsOf and LoadLimitOf
// read.
var LimitParameters = []string{paramMemory, paramOpenFiles, paramCPU, ParamLoadLimit}

// parseSize reads a number that may end in K, M, G or T (powers of 1024).
func parseSize(text string) (uint64, bool) {
	shift := 0
	if i := strings.IndexByte("KMGT", last(text)); i >= 0 {
		text, shift = text[:len(text)-1], 10*(i+1)
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return n << shift, err == nil && n <= 1<<62>>shift
}

func last(text string) byte {
	if text == "" {
		return 0
	}
	return text[len(text)-1]
}

// User is who workers run as, in place of the server's user.
type User struct {
	Name, Home string
	UID, GID   uint32
	Groups     []uint32
}

// FindUser looks a user up by name or number; nil for the empty name. Only root
// can start processes of other users.
func FindUser(name string) (*User, error) {
	if name == "" {
		return nil, nil
	}
	if !canConfine {
		return nil, backend.Errorf(backend.Unsupported, "--worker-user: workers run as another user on Linux only")
	}
	if os.Geteuid() != 0 {
		return nil, backend.Errorf(backend.InvalidArg, "--worker-user: only root can start workers of user '%s'", name)
	}
	found, err := user.Lookup(name)
	if err != nil {
		if byNumber, fault := user.LookupId(name); fault == nil {
			found, err = byNumber, nil
		}
	}
	if err != nil {
		return nil, backend.Errorf(backend.InvalidArg, "--worker-user: %v", err)
	}
	u := &User{Name: found.Username, Home: found.HomeDir}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, backend.Errorf(backend.InvalidArg, "--worker-user: the groups of '%s': %v", name, err)
	}
	for i, text := range append([]string{found.Uid, found.Gid}, ids...) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, backend.Errorf(backend.InvalidArg, "--worker-user: '%s' has no number: %v", name, err)
		}
		switch i {
		case 0:
			u.UID = uint32(n)
		case 1:
			u.GID = uint32(n)
		default:
			u.Groups = append(u.Groups, uint32(n))
		}
	}
	return u, nil
}

// secrets are the variables that the server has for itself: its stores, caches
// and clients. A model that needs one gets it by --worker-env. Variables that
// libraries of models read, such as HF_TOKEN, are not the server's.
var secrets = []string{
	"TRITONCACHE_REDIS_USERNAME", "TRITONCACHE_REDIS_PASSWORD", "TRITON_CLOUD_CREDENTIAL_PATH",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_*",
	"AZURE_STORAGE_KEY", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET",
	"AZURE_CLIENT_CERTIFICATE_*", "AZURE_PASSWORD", "AZURE_FEDERATED_TOKEN_FILE",
	"GOOGLE_APPLICATION_CREDENTIALS",
	"NESO_KEY", "NESO_*_KEY", "NESO_*_TOKEN", "NESO_*_PASSWORD", "NESO_*_SECRET",
}

// basics go to workers also where a list says what does.
var basics = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "LD_LIBRARY_PATH",
	"PYTHON*", "NESO_PYTHON*",
}

// Environment returns what workers get of the server's environment: all but
// its secrets or, with allow, the basics and the variables whose names match one
// of the patterns. A worker of another user gets that user's home.
func Environment(server, allow []string, u *User) []string {
	env := make([]string, 0, len(server))
	for _, kv := range server {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case u != nil && slices.Contains([]string{"HOME", "USER", "LOGNAME"}, name):
		case matches(allow, name), allow == nil && !matches(secrets, name), allow != nil && matches(basics, name):
			env = append(env, kv)
		}
	}
	if u != nil {
		env = append(env, "HOME="+u.Home, "USER="+u.Name, "LOGNAME="+u.Name)
	}
	return env
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// CheckEnvironment reports the first pattern that is none.
func CheckEnvironment(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("--worker-env: %q is not a pattern of names", p)
		}
	}
	return nil
}
