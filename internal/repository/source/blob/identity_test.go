package blob

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// cloud answers for a store and for all that gives out credentials. It keeps
// what the store was shown.
type cloud struct {
	t    *testing.T
	url  string
	http *http.Client // whatever it is asked for, cloud answers

	mu    sync.Mutex
	shown string            // by the last request to the store
	asked map[string]string // forms and headers that were sent to the others, by path
}

const (
	expiry   = "2099-01-01T00:00:00Z"
	stsReply = `<%sResponse><%sResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>s</SecretAccessKey>` +
		`<SessionToken>%s</SessionToken><Expiration>` + expiry + `</Expiration></Credentials></%sResult></%sResponse>`
	keyReply = `{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":%q,"SecretAccessKey":"s","Token":%q,"Expiration":"` + expiry +
		`","LastUpdated":"2026-01-01T00:00:00Z"}`
)

func newCloud(t *testing.T) *cloud {
	c := &cloud{t: t, asked: map[string]string{}}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	c.url = s.URL
	there, _ := url.Parse(s.URL)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c.http = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("X-Asked", r.URL.Host)
		r.URL.Scheme, r.URL.Host = there.Scheme, there.Host
		return transport.RoundTrip(r)
	})}
	return c
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = r.ParseForm()
	path := r.URL.Path
	c.asked[path] = r.Form.Encode() + " " + r.Header.Get("Authorization") + " " +
		r.Header.Get("Metadata") + r.Header.Get("X-Identity-Header") + r.Header.Get("Metadata-Flavor")
	switch {
	// Amazon's.
	case path == "/sts":
		action, key := r.Form.Get("Action"), "ROLE"
		if action == "AssumeRoleWithWebIdentity" {
			key = "WEB"
		}
		fmt.Fprintf(w, stsReply, action, action, key, "token-of-"+key, action, action)
	case path == "/task":
		fmt.Fprintf(w, keyReply, "TASK", "token-of-TASK")
	case path == "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "600")
		fmt.Fprint(w, "imds")
	case path == "/latest/meta-data/iam/security-credentials/":
		fmt.Fprint(w, "the-role")
	case path == "/latest/meta-data/iam/security-credentials/the-role":
		fmt.Fprintf(w, keyReply, "MACHINE", "token-of-MACHINE")
	// Google's.
	case path == "/token":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"by-%s","token_type":"Bearer","expires_in":3600}`, r.Form.Get("grant_type"))
	case path == "/computeMetadata/v1/instance/service-accounts/default/token":
		fmt.Fprint(w, `{"access_token":"of-the-machine","token_type":"Bearer","expires_in":3600}`)
	// Azure's.
	case path == "/metadata/identity/oauth2/token", path == "/app-service", path == "/the-tenant/oauth2/v2.0/token":
		fmt.Fprintf(w, `{"access_token":"azure%s","expires_in":"3600"}`, strings.ReplaceAll(path, "/", "-"))
	// The stores: an empty listing of each.
	case strings.HasPrefix(path, "/storage/v1/b/"):
		c.shown = r.Header.Get("Authorization")
		fmt.Fprint(w, `{"items":[]}`)
	case r.URL.Query().Get("comp") == "list":
		c.shown = r.Header.Get("Authorization")
		fmt.Fprint(w, `<EnumerationResults><Blobs></Blobs></EnumerationResults>`)
	case r.URL.Query().Has("list-type"):
		key, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="), "/")
		c.shown = key + " " + r.Header.Get("X-Amz-Security-Token")
		fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// open opens a repository and returns what its store was shown.
func (c *cloud) open(uri string) string {
	c.t.Helper()
	r, err := Open(c.t.Context(), uri, Options{CacheDir: c.t.TempDir(), pause: time.Millisecond, http: c.http})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		c.t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown
}

func (c *cloud) wantAsked(path string, parts ...string) {
	c.t.Helper()
	for _, p := range parts {
		if !strings.Contains(c.asked[path], p) {
			c.t.Errorf("%s was asked %q, want %q in it", path, c.asked[path], p)
		}
	}
}

// bare is an environment without credentials of any cloud.
func bare(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		for _, own := range []string{"AWS_", "GOOGLE_", "GCE_", "AZURE_", "IDENTITY_", "CLOUDSDK_", "STORAGE_", "TRITON_"} {
			if strings.HasPrefix(name, own) {
				t.Setenv(name, "")
			}
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func put(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAmazonIdentities: whatever gives out keys on Amazon's machines, and off
// them, is what the bucket is asked with.
func TestAmazonIdentities(t *testing.T) {
	profiles := "[default]\naws_access_key_id = DEFAULT\naws_secret_access_key = s\n" +
		"[team]\naws_access_key_id = TEAM\naws_secret_access_key = s\naws_session_token = token-of-TEAM\n" +
		"[profile]\n"
	roles := "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = team\nregion = eu-west-1\n"
	for _, c := range []struct {
		name string
		env  func(c *cloud) map[string]string
		want string
		ask  []string // path, and what was in the question
	}{
		{name: "keys", env: func(*cloud) map[string]string {
			return map[string]string{"AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": "s"}
		}, want: "KEY "},
		{name: "keys with a session", env: func(*cloud) map[string]string {
			return map[string]string{"AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "session"}
		}, want: "KEY session"},
		{name: "profile", env: func(*cloud) map[string]string {
			return map[string]string{"AWS_SHARED_CREDENTIALS_FILE": put(t, "credentials", profiles), "AWS_PROFILE": "team"}
		}, want: "TEAM token-of-TEAM"},
		{name: "default profile", env: func(*cloud) map[string]string {
			return map[string]string{"AWS_SHARED_CREDENTIALS_FILE": put(t, "credentials", profiles)}
		}, want: "DEFAULT "},
		{name: "profile with a role", env: func(c *cloud) map[string]string {
			return map[string]string{
				"AWS_SHARED_CREDENTIALS_FILE": put(t, "credentials", profiles), "AWS_CONFIG_FILE": put(t, "config", roles),
				"AWS_PROFILE": "role", "AWS_ENDPOINT_URL_STS": c.url + "/sts",
			}
		}, want: "ROLE token-of-ROLE", ask: []string{"/sts", "Action=AssumeRole&", "Credential=TEAM/"}},
		{name: "web identity", env: func(c *cloud) map[string]string {
			return map[string]string{
				"AWS_WEB_IDENTITY_TOKEN_FILE": put(t, "token", "the-web-token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/r", "AWS_REGION": "eu-west-1",
				"AWS_ENDPOINT_URL_STS": c.url + "/sts",
			}
		}, want: "WEB token-of-WEB", ask: []string{"/sts", "Action=AssumeRoleWithWebIdentity", "WebIdentityToken=the-web-token"}},
		{name: "container", env: func(c *cloud) map[string]string {
			return map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": c.url + "/task", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "for-the-agent"}
		}, want: "TASK token-of-TASK", ask: []string{"/task", "for-the-agent"}},
		{name: "machine", env: func(c *cloud) map[string]string {
			return map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": c.url, "AWS_EC2_METADATA_DISABLED": "false"}
		}, want: "MACHINE token-of-MACHINE"},
		{name: "nobody", env: func(*cloud) map[string]string { return nil }, want: " "},
		{name: "file of credentials", env: func(*cloud) map[string]string {
			return map[string]string{
				"TRITON_CLOUD_CREDENTIAL_PATH": put(t, "c.json",
					`{"s3":{"":{"key_id":"FILE","secret_key":"s","session_token":"of-the-file"}}}`), "AWS_ACCESS_KEY_ID": "KEY",
				"AWS_SECRET_ACCESS_KEY": "s",
			}
		}, want: "FILE of-the-file"},
		{name: "profile of a file of credentials", env: func(*cloud) map[string]string {
			return map[string]string{
				"TRITON_CLOUD_CREDENTIAL_PATH": put(t, "c.json", `{"s3":{"":{"profile":"team"}}}`),
				"AWS_SHARED_CREDENTIALS_FILE":  put(t, "credentials", profiles),
			}
		}, want: "TEAM token-of-TEAM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare(t)
			s := newCloud(t)
			for name, value := range c.env(s) {
				t.Setenv(name, value)
			}
			if got := s.open("s3://" + s.url + "/bucket"); got != c.want {
				t.Errorf("the bucket was asked with %q, want %q", got, c.want)
			}
			if c.ask != nil {
				s.wantAsked(c.ask[0], c.ask[1:]...)
			}
		})
	}
}

// serviceAccount is the file of a Google service account whose tokens come from
// the given place.
func serviceAccount(t *testing.T, tokens string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "models@project.iam.gserviceaccount.com", "private_key_id": "1", "token_uri": tokens,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return put(t, "google.json", string(text))
}

// machine is set in the process of a test that is on one of Google's machines:
// whether it is, a process asks once.
const machine = "NESO_TEST_GOOGLE_MACHINE"

func TestGoogleIdentities(t *testing.T) {
	const jwt = "Bearer by-urn:ietf:params:oauth:grant-type:jwt-bearer"
	onMachine := os.Getenv(machine) != ""
	for _, c := range []struct {
		name    string
		env     func(c *cloud) map[string]string
		want    string
		ask     []string
		machine bool
	}{
		{name: "service account", env: func(c *cloud) map[string]string {
			return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": serviceAccount(t, c.url+"/token")}
		}, want: jwt, ask: []string{"/token", "assertion="}},
		{name: "authorized user", env: func(*cloud) map[string]string {
			return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": put(t, "user.json",
				`{"type":"authorized_user","client_id":"i","client_secret":"s","refresh_token":"the-refresh-token"}`)}
		}, want: "Bearer by-refresh_token", ask: []string{"/token", "refresh_token=the-refresh-token"}},
		{name: "file of credentials", env: func(c *cloud) map[string]string {
			return map[string]string{"TRITON_CLOUD_CREDENTIAL_PATH": put(t, "c.json",
				fmt.Sprintf(`{"gs":{"":%q}}`, serviceAccount(t, c.url+"/token")))}
		}, want: jwt},
		{name: "file of credentials that names none", env: func(*cloud) map[string]string {
			return map[string]string{"TRITON_CLOUD_CREDENTIAL_PATH": put(t, "c.json", `{"gs":{"":""}}`)}
		}, want: ""},
		{name: "machine", env: func(c *cloud) map[string]string {
			return map[string]string{"GCE_METADATA_HOST": strings.TrimPrefix(c.url, "http://")}
		}, want: "Bearer of-the-machine", machine: true, ask: []string{"/computeMetadata/v1/instance/service-accounts/default/token", "Google"}},
	} {
		if c.machine != onMachine {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			bare(t)
			s := newCloud(t)
			for name, value := range c.env(s) {
				t.Setenv(name, value)
			}
			if got := s.open("gs://bucket/models"); got != c.want {
				t.Errorf("the bucket was asked with %q, want %q", got, c.want)
			}
			if c.ask != nil {
				s.wantAsked(c.ask[0], c.ask[1:]...)
			}
		})
	}
	if onMachine {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		return
	}
	t.Run("on a machine of Google's", func(t *testing.T) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestGoogleIdentities$", "-test.v")
		cmd.Env = append(os.Environ(), machine+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestGoogleIdentities/machine") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func TestAzureIdentities(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("the account's key"))
	for _, c := range []struct {
		name string
		env  func(c *cloud) map[string]string
		want string // the beginning of what the store is shown
		ask  []string
	}{
		{name: "key", env: func(*cloud) map[string]string { return map[string]string{"AZURE_STORAGE_KEY": key} }, want: "SharedKey account:"},
		{name: "key of another account", env: func(*cloud) map[string]string {
			return map[string]string{"AZURE_STORAGE_KEY": key, "AZURE_STORAGE_ACCOUNT": "other"}
		}, want: "SharedKey other:"},
		{
			name: "managed identity", env: func(*cloud) map[string]string {
				return map[string]string{"AZURE_STORAGE_AUTH_TYPE": "managed_identity"}
			}, want: "Bearer azure-metadata-identity-oauth2-token",
			ask: []string{"/metadata/identity/oauth2/token", "resource=https%3A%2F%2Fstorage.azure.com%2F", "true"},
		},
		{name: "managed identity of a client", env: func(*cloud) map[string]string {
			return map[string]string{"AZURE_STORAGE_AUTH_TYPE": "managed_identity", "AZURE_STORAGE_CLIENT_ID": "the-client"}
		}, want: "Bearer azure-metadata", ask: []string{"/metadata/identity/oauth2/token", "client_id=the-client"}},
		{name: "managed identity of a service", env: func(c *cloud) map[string]string {
			return map[string]string{
				"AZURE_STORAGE_AUTH_TYPE": "managed_identity", "IDENTITY_ENDPOINT": c.url + "/app-service",
				"IDENTITY_HEADER": "the-header",
			}
		}, want: "Bearer azure-app-service", ask: []string{"/app-service", "the-header"}},
		{name: "default: a client's secret", env: func(*cloud) map[string]string {
			return map[string]string{
				"AZURE_STORAGE_AUTH_TYPE": "default", "AZURE_TENANT_ID": "the-tenant", "AZURE_CLIENT_ID": "i",
				"AZURE_CLIENT_SECRET": "the-secret",
			}
		}, want: "Bearer azure-the-tenant", ask: []string{"/the-tenant/oauth2/v2.0/token", "client_secret=the-secret"}},
		{name: "default: a workload's file", env: func(c *cloud) map[string]string {
			return map[string]string{
				"AZURE_STORAGE_AUTH_TYPE": "default", "AZURE_TENANT_ID": "the-tenant", "AZURE_CLIENT_ID": "i",
				"AZURE_FEDERATED_TOKEN_FILE": put(t, "token", "the-assertion\n"), "AZURE_AUTHORITY_HOST": c.url + "/",
			}
		}, want: "Bearer azure-the-tenant", ask: []string{"/the-tenant/oauth2/v2.0/token", "client_assertion=the-assertion&"}},
		{name: "default: the machine", env: func(*cloud) map[string]string {
			return map[string]string{"AZURE_STORAGE_AUTH_TYPE": "default"}
		}, want: "Bearer azure-metadata"},
		{name: "nobody", env: func(*cloud) map[string]string { return nil }, want: ""},
		{name: "file of credentials", env: func(*cloud) map[string]string {
			return map[string]string{"TRITON_CLOUD_CREDENTIAL_PATH": put(t, "c.json",
				`{"as":{"":{"account_str":"account","auth_type":"managed_identity","client_id":"the-client"}}}`), "AZURE_STORAGE_KEY": key}
		}, want: "Bearer azure-metadata", ask: []string{"/metadata/identity/oauth2/token", "client_id=the-client"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bare(t)
			s := newCloud(t)
			for name, value := range c.env(s) {
				t.Setenv(name, value)
			}
			got := s.open("as://account/container/models")
			if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("the container was asked with %q, want %q", got, c.want)
			}
			if c.ask != nil {
				s.wantAsked(c.ask[0], c.ask[1:]...)
			}
		})
	}
}
