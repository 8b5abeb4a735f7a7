package blob

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseURI(t *testing.T) {
	for uri, want := range map[string]location{
		"s3://bucket":                        {scheme: "s3", bucket: "bucket"},
		"s3://bucket/":                       {scheme: "s3", bucket: "bucket"},
		"s3://bucket//a///b/":                {scheme: "s3", bucket: "bucket", prefix: "a/b/"},
		"s3://https://host.example:9000/b/p": {scheme: "s3", endpoint: "https://host.example:9000", bucket: "b", prefix: "p/"},
		"s3://http://127.0.0.1:9000/b":       {scheme: "s3", endpoint: "http://127.0.0.1:9000", bucket: "b"},
		"s3://localhost:9000/b//p/":          {scheme: "s3", endpoint: "http://localhost:9000", bucket: "b", prefix: "p/"},
		"s3://http://[::1]:9000/b":           {scheme: "s3", endpoint: "http://[::1]:9000", bucket: "b"},
		"gs://bucket/a":                      {scheme: "gs", bucket: "bucket", prefix: "a/"},
		"as://account/container/a":           {scheme: "as", account: "account", bucket: "container", prefix: "a/"},
		"as://account.blob.core.windows.net/c": {
			scheme: "as", endpoint: "https://account.blob.core.windows.net", account: "account",
			bucket: "c",
		},
		"as://http://127.0.0.1:10000/dev/c": {scheme: "as", endpoint: "http://127.0.0.1:10000", account: "dev", bucket: "c"},
	} {
		got, err := parseURI(uri)
		if d := cmp.Diff(got, want, cmp.AllowUnexported(location{})); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", uri, err, d)
		}
	}
	for _, uri := range []string{"s3://", "s3:///", "s3://http://h:1", "s3://h:1/", "gs://", "as://", "as://account", "as://account/"} {
		if _, err := parseURI(uri); err == nil || err.Error() != "No bucket name found in path: "+uri {
			t.Errorf("%s: %v", uri, err)
		}
	}
	if _, err := parseURI("s3://a?b/c"); err == nil {
		t.Error("no error")
	}
}

func TestCredentialFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	getenv := func(name string) string { return map[string]string{"TRITON_CLOUD_CREDENTIAL_PATH": file}[name] }
	text := `{"gs": {"": "/a.json", "gs://b/c": "/c.json"}, "s3": {"s3://b": {"secret_key": "s", "key_id": "k", "region": "r", "session_token": "t", "profile": "p"}},
	  "as": {"": {"account_str": "a", "account_key": "k", "auth_type": "key", "client_id": "i"}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := readCredentials(getenv)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"gs://x": "/a.json", "gs://b": "/a.json", "gs://b/c": "/c.json", "gs://b/c/d": "/c.json"} {
		if got, err := match(c.GS, path); got != want || err != nil {
			t.Error(path, got, err)
		}
	}
	if got, err := match(c.S3, "s3://bucket"); err != nil || got != (s3Credential{"s", "k", "r", "t", "p"}) {
		t.Error(got, err)
	}
	if _, err := match(c.S3, "s3://other"); err == nil || err.Error() != "Cannot match credential for path  s3://other" {
		t.Error(err)
	}
	if got, err := match(c.AS, "as://a/b"); err != nil || got != (azureCredential{"a", "k", "key", "i"}) {
		t.Error(got, err)
	}
	for _, bad := range []string{"", "[", `{"s3": []}`, `{"gs": {"": 1}}`} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readCredentials(getenv); err == nil || !strings.Contains(err.Error(), "TRITON_CLOUD_CREDENTIAL_PATH") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if c, err := readCredentials(func(string) string { return "" }); c != nil || err != nil {
		t.Error(c, err)
	}
}

// TestS3Checksum: the strongest whole-object sum; an ETag is one only where it
// is the MD5 of the content.
func TestS3Checksum(t *testing.T) {
	tag := `"5d41402abc4b2a76b9719d911017c592"`
	for name, c := range map[string]struct {
		header http.Header
		etag   string
		want   string
	}{
		"nothing":        {http.Header{}, `"x-3"`, ""},
		"etag":           {http.Header{}, tag, "MD5"},
		"parts":          {http.Header{}, `"5d41402abc4b2a76b9719d911017c592-2"`, ""},
		"S3's key":       {http.Header{"X-Amz-Server-Side-Encryption": {"AES256"}}, tag, "MD5"},
		"a key of KMS":   {http.Header{"X-Amz-Server-Side-Encryption": {"aws:kms"}}, tag, ""},
		"customer's key": {http.Header{"X-Amz-Server-Side-Encryption-Customer-Algorithm": {"AES256"}}, tag, ""},
		"crc64":          {http.Header{"X-Amz-Checksum-Crc64nvme": {"AAAAAAAAAAA="}, "X-Amz-Checksum-Type": {"FULL_OBJECT"}}, tag, "CRC64NVME"},
		"of parts":       {http.Header{"X-Amz-Checksum-Crc32": {"AAAAAA==-2"}, "X-Amz-Checksum-Type": {"COMPOSITE"}}, `"x-2"`, ""},
		"two": {
			http.Header{"X-Amz-Checksum-Crc32": {"AAAAAA=="}, "X-Amz-Checksum-Sha1": {"AAAAAAAAAAAAAAAAAAAAAAAAAAA="}},
			tag,
			"SHA1",
		},
	} {
		if got := s3Checksum(c.header, c.etag); got.name != c.want {
			t.Errorf("%s: %q, want %q", name, got.name, c.want)
		}
	}
	// The check value of CRC-64/NVME.
	h := s3Checksum(http.Header{"X-Amz-Checksum-Crc64nvme": {"rosUhgp5msQ="}}, "").make()
	h.Write([]byte("123456789"))
	if d := cmp.Diff(h.Sum(nil), []byte{0xae, 0x8b, 0x14, 0x86, 0x0a, 0x79, 0x98, 0x88}); d != "" {
		t.Error(d)
	}
}

func FuzzListings(f *testing.F) {
	f.Add([]byte(`<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>n</NextContinuationToken>` +
		`<Contents><Key>a%2Fb</Key><ETag>"x"</ETag><Size>3</Size><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>` +
		`<CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>`))
	f.Add([]byte(`{"nextPageToken":"n","prefixes":["p/"],"items":[{"name":"a","size":"3","etag":"x","generation":"1",` +
		`"updated":"2026-01-02T03:04:05Z","md5Hash":"XUFAKrxLKna5cZ2REBfFkg=="}]}`))
	f.Add([]byte(`<EnumerationResults><Blobs><Blob><Name>a</Name>` +
		`<Properties><Content-Length>3</Content-Length><Etag>x</Etag><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified>` +
		`<Content-MD5>XUFAKrxLKna5cZ2REBfFkg==</Content-MD5></Properties></Blob>` +
		`<BlobPrefix><Name>p/</Name></BlobPrefix></Blobs><NextMarker>n</NextMarker></EnumerationResults>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (listing, error){parseS3List, parseGCSList, parseAzureList} {
			l, err := parse(body)
			if err != nil && (len(l.objects) > 0 || l.next != "") {
				t.Error("an error with a listing")
			}
		}
		_, _ = parseCredentials(body)
		if p, err := parseURI(string(body)); err == nil && (p.bucket == "" || strings.Contains(p.bucket, "/")) {
			t.Errorf("%q: %+v", body, p)
		}
	})
}
