package cli

import (
	"regexp"
	"strconv"
	"strings"
)

// secretValue finds what a log must not hold: the values of settings named
// after secrets, and the keys of restricted APIs.
var secretValue = regexp.MustCompile(`(?i)(password|secret|token|access[-_]?key)([^=,]*=).*|((?:restricted-api|restricted-protocol)[= ` +
	`][^=]*=).*`)

// startLine renders the command line for the log: what was set, so that a log
// alone tells how a server was started, without its secrets.
func startLine(args []string) string {
	shown := make([]string, len(args))
	for i, arg := range args {
		if i > 0 && (args[i-1] == "--http-restricted-api" || args[i-1] == "--grpc-restricted-protocol") {
			arg = strings.TrimPrefix(hideSecret(args[i-1]+" "+arg), args[i-1]+" ")
		} else {
			arg = hideSecret(arg)
		}
		if strings.ContainsAny(arg, " \t\n\"") {
			arg = strconv.Quote(arg)
		}
		shown[i] = arg
	}
	return strings.Join(shown, " ")
}

func hideSecret(arg string) string { return secretValue.ReplaceAllString(arg, "${1}${2}${3}***") }
