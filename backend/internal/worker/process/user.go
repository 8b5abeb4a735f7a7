package process

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nesoserve/neso/backend"
	"github.com/nesoserve/neso/backend/internal/worker/limits"
)

// User is who workers run as, in place of the server's user.
type User struct {
	Name, Home string
	UID, GID   uint32
	Groups     []uint32
}

// FindUser looks a user up by name or number; nil for the empty name. Only root
// can start processes of other users. Errors call the setting option.
func FindUser(name, option string) (*User, error) {
	if name == "" {
		return nil, nil
	}
	if !limits.Supported {
		return nil, backend.Errorf(backend.Unsupported, "%s: workers run as another user on Linux only", option)
	}
	if os.Geteuid() != 0 {
		return nil, backend.Errorf(backend.InvalidArg, option+": only root can start workers of user '%s'", name)
	}
	found, err := user.Lookup(name)
	if err != nil {
		if byNumber, fault := user.LookupId(name); fault == nil {
			found, err = byNumber, nil
		}
	}
	if err != nil {
		return nil, backend.Errorf(backend.InvalidArg, option+": %v", err)
	}
	u := &User{Name: found.Username, Home: found.HomeDir}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, backend.Errorf(backend.InvalidArg, option+": the groups of '%s': %v", name, err)
	}
	for i, text := range append([]string{found.Uid, found.Gid}, ids...) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, backend.Errorf(backend.InvalidArg, option+": '%s' has no number: %v", name, err)
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
// of the patterns. A worker of another user gets that user's home. The environment of nil
// is that of this process, as it was when it began.
func Environment(server, allow []string, u *User) []string {
	if server == nil {
		server = os.Environ()
	}
	env := make([]string, 0, len(server))
	for _, kv := range server {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case u != nil && slices.Contains([]string{"HOME", "USER", "LOGNAME"}, name):
		case matches(allow, name), allow == nil && !matches(secrets, name),
			allow != nil && (matches(basics, name) || matches(systemBasics, name)):
			env = append(env, kv)
		}
	}
	if u != nil {
		env = append(env, "HOME="+u.Home, "USER="+u.Name, "LOGNAME="+u.Name)
	}
	return env
}

func matches(patterns []string, name string) bool {
	name = variable(name)
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(variable(p), name)
		return ok
	})
}

// CheckEnvironment reports the first pattern that is none. The error calls the
// setting option.
func CheckEnvironment(patterns []string, option string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf(option+": %q is not a pattern of names", p)
		}
	}
	return nil
}
