package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso"
	"github.com/nesoserve/neso/internal/cli/terminal"
	"github.com/nesoserve/neso/internal/perf"
	"github.com/nesoserve/neso/internal/perf/options"
)

// runPerf runs the load generator under the name that it was called by.
func runPerf(ctx context.Context, env Env, args []string, program string) int {
	return perf.Main(ctx, args, perf.Env{
		Stdout: env.Stdout, Stderr: env.Stderr, Program: program, Version: neso.Version(), Terminal: terminal.Is(env.Stderr),
		Serve: servePerf(env.Stderr),
	})
}

func perfCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:                "perf -m MODEL [options]",
		Short:              "Measure a model of a running server, with perf_analyzer's options",
		DisableFlagParsing: true, // perf_analyzer's rules, see internal/perf/options
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return options.Names(), cobra.ShellCompDirectiveNoSpace
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := runPerf(cmd.Context(), env, args, "neso perf"); code != 0 {
				return &exitError{code}
			}
			return nil
		},
	}
}
