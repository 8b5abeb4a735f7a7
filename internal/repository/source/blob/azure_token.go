package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const azureResource = "https://storage.azure.com/"

// azureTokens returns tokens of the machine's managed identity, or for
// "default" first of what the environment names: a client with a secret, or a
// workload identity with a file.
func azureTokens(ctx context.Context, kind, clientID string, o Options) oauth2.TokenSource {
	s := &azureSource{ctx: context.WithoutCancel(ctx), client: clientID, o: o, byEnvironment: kind == "default"}
	return oauth2.ReuseTokenSource(nil, s)
}

type azureSource struct {
	ctx           context.Context
	client        string
	o             Options
	byEnvironment bool
}

// Token asks for a new token.
func (s *azureSource) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	env := s.o.getenv
	tenant, client := env("AZURE_TENANT_ID"), env("AZURE_CLIENT_ID")
	if s.byEnvironment && tenant != "" && client != "" {
		form := url.Values{"client_id": {client}, "grant_type": {"client_credentials"}, "scope": {azureResource + ".default"}}
		switch secret, file := env("AZURE_CLIENT_SECRET"), env("AZURE_FEDERATED_TOKEN_FILE"); {
		case secret != "":
			form.Set("client_secret", secret)
			return s.login(ctx, tenant, form)
		case file != "":
			assertion, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
			form.Set("client_assertion", strings.TrimSpace(string(assertion)))
			return s.login(ctx, tenant, form)
		}
	}
	return s.managed(ctx)
}

func (s *azureSource) login(ctx context.Context, tenant string, form url.Values) (*oauth2.Token, error) {
	host := strings.TrimSuffix(s.o.getenv("AZURE_AUTHORITY_HOST"), "/")
	if host == "" {
		host = "https://login.microsoftonline.com"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, host+"/"+url.PathEscape(tenant)+"/oauth2/v2.0/token",
		strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.ask(r)
}

func (s *azureSource) managed(ctx context.Context) (*oauth2.Token, error) {
	query := url.Values{"resource": {azureResource}}
	if s.client != "" {
		query.Set("client_id", s.client)
	}
	endpoint, header, value, version := s.o.getenv("IDENTITY_ENDPOINT"), "X-Identity-Header", s.o.getenv("IDENTITY_HEADER"), "2019-08-01"
	if endpoint == "" || value == "" {
		endpoint, header, value, version = "http://169.254.169.254/metadata/identity/oauth2/token", "Metadata", "true", "2018-02-01"
	}
	query.Set("api-version", version)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set(header, value)
	return s.ask(r)
}

func (s *azureSource) ask(r *http.Request) (*oauth2.Token, error) {
	resp, err := s.o.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("no token: HTTP status %d", resp.StatusCode)
	}
	var t struct {
		AccessToken string          `json:"access_token"`
		ExpiresIn   json.RawMessage `json:"expires_in"` // a number, or the text of one
	}
	if err := json.Unmarshal(body, &t); err != nil || t.AccessToken == "" {
		return nil, errors.New("the answer holds no token")
	}
	seconds, err := strconv.ParseInt(strings.Trim(string(t.ExpiresIn), `"`), 10, 32)
	if err != nil || seconds <= 0 {
		seconds = 600
	}
	return &oauth2.Token{AccessToken: t.AccessToken, TokenType: "Bearer", Expiry: time.Now().Add(time.Duration(seconds) * time.Second)}, nil
}
