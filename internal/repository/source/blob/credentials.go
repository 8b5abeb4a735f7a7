package blob

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/nesoserve/neso/backend"
)

// maxCredentials bounds the file of credentials.
const maxCredentials = 1 << 20

// credentialFile is what TRITON_CLOUD_CREDENTIAL_PATH names: for each scheme
// credentials by the beginning of the paths that they are for.
type credentialFile struct {
	GS map[string]string          `json:"gs"`
	S3 map[string]s3Credential    `json:"s3"`
	AS map[string]azureCredential `json:"as"`
}

type s3Credential struct {
	SecretKey    string `json:"secret_key"`
	KeyID        string `json:"key_id"`
	Region       string `json:"region"`
	SessionToken string `json:"session_token"`
	Profile      string `json:"profile"`
}

type azureCredential struct {
	Account  string `json:"account_str"`
	Key      string `json:"account_key"`
	AuthType string `json:"auth_type"` // "key", "managed_identity" or "default"
	ClientID string `json:"client_id"`
}

// readCredentials reads the file; nil without one.
func readCredentials(getenv func(string) string) (*credentialFile, error) {
	path := getenv("TRITON_CLOUD_CREDENTIAL_PATH")
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxCredentials {
		err = errors.New("the file is too large")
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, backend.Errorf(backend.InvalidArg, "cannot read the credentials of TRITON_CLOUD_CREDENTIAL_PATH: %v", err)
	}
	f, err := parseCredentials(text)
	if err != nil {
		return nil, backend.Errorf(backend.InvalidArg, "cannot read the credentials of TRITON_CLOUD_CREDENTIAL_PATH %s: %v", path, err)
	}
	return f, nil
}

func parseCredentials(text []byte) (*credentialFile, error) {
	f := &credentialFile{}
	err := json.Unmarshal(text, f)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		err = errors.New("it is not JSON: " + syntax.Error())
	}
	return f, err
}

// match returns the credential whose key is the longest beginning of path.
func match[C any](all map[string]C, path string) (C, error) {
	var found C
	length := -1
	for prefix, c := range all {
		if len(prefix) > length && strings.HasPrefix(path, prefix) {
			found, length = c, len(prefix)
		}
	}
	if length < 0 {
		return found, backend.Errorf(backend.InvalidArg, "Cannot match credential for path  %s", path)
	}
	return found, nil
}
