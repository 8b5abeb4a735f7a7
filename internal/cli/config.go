package cli

import (
	"github.com/spf13/cobra"
)

func configCommand(_ Env) *cobra.Command {
	return &cobra.Command{Use: "config"}
}
