// Package key owns `neso key`, which makes keys for the auth file.
package key

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nesoserve/neso/internal/auth"
)

// keyBytes make a key that nobody can guess, so that a plain hash protects it.
const keyBytes = 32

// Command is `neso key`, which prints to out.
func Command(out io.Writer) *cobra.Command {
	var e auth.Entry
	create := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a key for --auth-file",
		Long: `Prints a new key, which is kept nowhere, and the entry for the list "keys" of the
auth file, which holds only its hash. Running servers take the changed file
within a second of the next request.`,
		Example: "  neso key new web --models 'digits,bert-*' --requests-per-second 100\n  neso key new ops --scopes read,manage",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var raw [keyBytes]byte
			_, _ = rand.Read(raw[:]) // never fails
			key := "neso_" + base64.RawURLEncoding.EncodeToString(raw[:])
			digest := sha256.Sum256([]byte(key))
			e.Name, e.SHA256 = args[0], hex.EncodeToString(digest[:])
			if _, err := e.Key(); err != nil {
				return err
			}
			entry, err := json.MarshalIndent(&e, "    ", "  ")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "key (shown once): %s\n\nentry for the list \"keys\" of the auth file:\n    %s\n", key, entry)
			return err
		},
	}
	f := create.Flags()
	f.StringSliceVar(&e.Scopes, "scopes", []string{"infer"}, "what it may do: infer, read, manage")
	f.StringSliceVar(&e.Models, "models", nil, "patterns of the models it may use, such as 'bert-*'; default all")
	f.Float64Var(&e.RequestsPerSecond, "requests-per-second", 0, "inference requests per second in the long run; 0 means no bound")
	f.Int64Var(&e.Burst, "burst", 0, "inference requests at once after a pause; default those of a second")
	f.Int64Var(&e.ConcurrentRequests, "concurrent-requests", 0, "inference requests in the server at once; 0 means no bound")
	f.Int64Var(&e.QueuedBytes, "queued-bytes", 0, "input bytes in the server at once; 0 means no bound")
	f.Int64Var(&e.TokensPerMinute, "tokens-per-minute", 0, "tokens of language models in a minute; 0 means no bound")
	group := &cobra.Command{Use: "key", Short: "Make keys for clients, see --auth-file"}
	group.AddCommand(create)
	return group
}
