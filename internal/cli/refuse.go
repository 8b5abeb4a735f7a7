package cli

import (
	"errors"
	"fmt"
)

var errEmptyConfigName = errors.New("Error: empty argument for --model-config-name")

func nonEmpty(name string) func(*serveOptions, string) error {
	return func(_ *serveOptions, s string) error {
		if s == "" {
			return fmt.Errorf("--%s can not be empty", name)
		}
		return nil
	}
}
