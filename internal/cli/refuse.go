package cli

import (
	"errors"
	"fmt"
)

var errEmptyConfigName = errors.New("Error: empty argument for --model-config-name")

// errNotBuilt refuses a value that asks for protection or behaviour the server
// would silently not give.
func errNotBuilt(what string) error {
	return fmt.Errorf("%s is not part of this version of Neso", what)
}

// refuseTrue accepts false and refuses true: serving on without what the user
// asked for would be worse than not starting.
func refuseTrue(name string) func(*serveOptions, string) error {
	return func(_ *serveOptions, s string) error {
		v, err := parseBool(s)
		if err == nil && v {
			return errNotBuilt("--" + name + "=true")
		}
		return err
	}
}

func setAgentDirectory(o *serveOptions, s string) error {
	if s == "" {
		return errors.New("--repoagent-directory can not be empty")
	}
	o.server.RepositoryAgentDirectory = s
	return nil
}
