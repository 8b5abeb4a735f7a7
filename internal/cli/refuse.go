package cli

import "errors"

var errEmptyConfigName = errors.New("Error: empty argument for --model-config-name")

func setAgentDirectory(o *serveOptions, s string) error {
	if s == "" {
		return errors.New("--repoagent-directory can not be empty")
	}
	o.server.RepositoryAgentDirectory = s
	return nil
}
