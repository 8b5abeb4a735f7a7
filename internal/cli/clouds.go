package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/internal/cli/sagemaker"
)

// cloudOptions are the options of the clouds' forms.
type cloudOptions struct {
	allowSagemaker, allowVertex bool
	sagemakerPort, vertexPort   int
	// safePorts are those that other listeners may have beside SageMaker's; nil
	// means any.
	safePorts *[2]int
	// storageURI is the repository where the command line names none.
	storageURI string
}

const defaultCloudPort = 8080

// cloudDefaults takes what a cloud's environment says; the command line wins.
func (o *serveOptions) cloudDefaults(getenv func(string) string) error {
	if getenv("AIP_MODE") == "PREDICTION" {
		o.allowVertex, o.allowHTTP, o.allowGRPC = true, false, false
	}
	if port := getenv("AIP_HTTP_PORT"); port != "" {
		n, err := strconv.Atoi(port)
		if err != nil {
			return &usageError{fmt.Sprintf("AIP_HTTP_PORT is %q: expected a port", port)}
		}
		o.vertexPort = n
	}
	s := &o.server
	s.Sagemaker.Model = getenv("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME")
	s.Sagemaker.LivePing = sagemaker.LivePing(getenv)
	s.Sagemaker.InferenceType = getenv("SAGEMAKER_TRITON_INFERENCE_TYPE")
	s.VertexAI.PredictRoute, s.VertexAI.HealthRoute = getenv("AIP_PREDICT_ROUTE"), getenv("AIP_HEALTH_ROUTE")
	o.storageURI = getenv("AIP_STORAGE_URI")
	return nil
}

// setSafePorts reads "<first>-<last>".
func setSafePorts(o *serveOptions, s string) error {
	first, last, err := parsePair(s, "-")
	if err != nil {
		return err
	}
	low, err1 := parseInt(first)
	high, err2 := parseInt(last)
	if err := cmp.Or(err1, err2); err != nil {
		return err
	}
	o.safePorts = &[2]int{low, high}
	return nil
}

// sagemakerDefaults takes what the variables say, where the command line opens the
// cloud's listener; what else the command line says wins.
func (o *serveOptions) sagemakerDefaults(table []option, args []string, getenv func(string) string) error {
	settings := sagemaker.Settings(getenv)
	scratch := defaults()
	if _, err := parse(table, args, scratch); len(settings) == 0 || err != nil || !scratch.allowSagemaker {
		return nil //nolint:nilerr // said when the arguments are taken
	}
	for _, s := range settings {
		if _, err := parse(table, s.Arguments, o); err != nil {
			return &usageError{fmt.Sprintf("%s is %q: %v", s.Variable, s.Value, err)}
		}
	}
	return nil
}

// serveSagemaker is `neso sagemaker`.
func serveSagemaker(ctx context.Context, env Env, args []string) int {
	given := defaults()
	if _, err := parse(serveTable(), args, given); err == nil && !given.help {
		var repository string
		if all := given.server.ModelRepositories; len(all) > 0 {
			repository = all[0]
		}
		start, err := sagemaker.Start(os.Getenv, repository, env.Stderr)
		if err != nil {
			fmt.Fprintln(env.Stderr, err)
			return 1
		}
		args = append(start, args...)
	}
	return serve(ctx, env, args, false)
}

func sagemakerCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "sagemaker [options of serve]",
		Short: "Serve as containers of Amazon SageMaker do: /opt/ml/model, set up by SAGEMAKER_ variables",
		Long: `Serve as containers of Amazon SageMaker do: the model in /opt/ml/model (--model-repository), or with
SAGEMAKER_MULTI_MODEL=true those that the cloud loads, set up by the variables that Triton's container has.
A link to this binary that is named serve means the same.`,
		DisableFlagParsing: true, // tritonserver's rules, see parse.go
		RunE: func(cmd *cobra.Command, args []string) error {
			if code := serveSagemaker(cmd.Context(), env, args); code != 0 {
				return &exitError{code}
			}
			return nil
		},
	}
}
