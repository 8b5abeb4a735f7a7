package blob

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // the store keeps MD5 sums
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const azureVersion = "2021-08-06"

// azure is a container of Azure Blob Storage.
type azure struct {
	client
	endpoint  string // with the account, where it is part of the path
	account   string
	container string
	key       []byte             // of the account
	tokens    oauth2.TokenSource // without a key; nil: anonymous
}

func openAzure(ctx context.Context, p location, c *azureCredential, o Options) (*azure, error) {
	if c == nil {
		c = &azureCredential{
			Account: o.getenv("AZURE_STORAGE_ACCOUNT"), Key: o.getenv("AZURE_STORAGE_KEY"),
			AuthType: o.getenv("AZURE_STORAGE_AUTH_TYPE"), ClientID: o.getenv("AZURE_STORAGE_CLIENT_ID"),
		}
	}
	a := &azure{account: cmp.Or(c.Account, p.account), container: p.bucket}
	a.client = client{http: o.http, pause: o.pause, prepare: a.authorize, explain: explainAzure}
	switch host, _, _ := strings.Cut(strings.TrimPrefix(p.endpoint, "https://"), "."); {
	case p.endpoint == "" || host == p.account && a.account != p.account:
		a.endpoint = "https://" + a.account + ".blob.core.windows.net"
	case host == p.account:
		a.endpoint = p.endpoint
	default:
		a.endpoint = p.endpoint + "/" + escape(a.account, false) // an emulator
	}
	switch c.AuthType {
	case "managed_identity", "default":
		a.tokens = azureTokens(ctx, c.AuthType, c.ClientID, o)
	case "", "key":
		if c.Key == "" {
			break
		}
		key, err := base64.StdEncoding.DecodeString(c.Key)
		if err != nil {
			return nil, errors.New("the account key is not base64")
		}
		a.key = key
	default:
		return nil, errors.New("unknown authentication type '" + c.AuthType + "', expected key, managed_identity or default")
	}
	return a, nil
}

func (a *azure) authorize(_ context.Context, r *http.Request) error {
	r.Header.Set("X-Ms-Version", azureVersion)
	r.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
	switch {
	case a.key != nil:
		mac := hmac.New(sha256.New, a.key)
		mac.Write([]byte(azureStringToSign(r, a.account)))
		r.Header.Set("Authorization", "SharedKey "+a.account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	case a.tokens != nil:
		token, err := a.tokens.Token()
		if err != nil {
			return &credentialError{err}
		}
		token.SetAuthHeader(r)
	}
	return nil
}

// azureStringToSign is what the account's key signs of a request without body.
func azureStringToSign(r *http.Request, account string) string {
	var b strings.Builder
	b.WriteString(r.Method + "\n")
	for _, name := range []string{
		"Content-Encoding", "Content-Language", "Content-Length", "Content-Md5", "Content-Type", "Date",
		"If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range",
	} {
		b.WriteString(r.Header.Get(name) + "\n")
	}
	var own []string
	for name := range r.Header {
		if n := strings.ToLower(name); strings.HasPrefix(n, "x-ms-") {
			own = append(own, n+":"+r.Header.Get(name)+"\n")
		}
	}
	slices.Sort(own)
	b.WriteString(strings.Join(own, ""))
	b.WriteString("/" + account + r.URL.EscapedPath())
	query := r.URL.Query()
	var names []string
	for name := range query {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.WriteString("\n" + strings.ToLower(name) + ":" + strings.Join(query[name], ","))
	}
	return b.String()
}

type azureList struct {
	NextMarker string
	Blobs      struct {
		Blob []struct {
			Name       string
			Properties struct {
				ContentLength int64  `xml:"Content-Length"`
				ETag          string `xml:"Etag"`
				LastModified  string `xml:"Last-Modified"`
				MD5           string `xml:"Content-MD5"`
				ResourceType  string
			}
		}
		BlobPrefix []struct{ Name string }
	}
}

func (a *azure) list(ctx context.Context, prefix, token string, shallow bool, limit int) (listing, error) {
	query := url.Values{"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}, "maxresults": {strconv.Itoa(limit)}}
	if token != "" {
		query.Set("marker", token)
	}
	if shallow {
		query.Set("delimiter", "/")
	}
	body, _, err := a.get(ctx, a.endpoint+"/"+escape(a.container, false)+"?"+strings.ReplaceAll(query.Encode(), "+", "%20"), nil)
	if err != nil {
		return listing{}, err
	}
	return parseAzureList(body)
}

func parseAzureList(body []byte) (listing, error) {
	body = []byte(strings.TrimPrefix(string(body), "\ufeff"))
	var page azureList
	if err := xml.Unmarshal(body, &page); err != nil {
		return listing{}, errors.New("the store's listing is not what it should be: " + err.Error())
	}
	l := listing{next: page.NextMarker}
	for _, b := range page.Blobs.Blob {
		modified, _ := http.ParseTime(b.Properties.LastModified) // it is there for the look of it
		o := object{key: b.Name, size: b.Properties.ContentLength, etag: b.Properties.ETag, modified: modified}
		if b.Properties.ResourceType == "directory" {
			o.key += "/"
		}
		if want, err := base64.StdEncoding.DecodeString(b.Properties.MD5); err == nil && len(want) == md5.Size {
			o.sum = checksum{"MD5", md5.New, want}
		}
		l.objects = append(l.objects, o)
	}
	for _, p := range page.Blobs.BlobPrefix {
		l.prefixes = append(l.prefixes, p.Name)
	}
	return l, nil
}

func (a *azure) read(ctx context.Context, o object, offset, length int64) (io.ReadCloser, error) {
	etag := o.etag
	if !strings.HasPrefix(etag, `"`) {
		etag = `"` + etag + `"`
	}
	return a.open(ctx, a.endpoint+"/"+escape(a.container, false)+"/"+escape(o.key, true), http.Header{"If-Match": {etag}}, offset, length)
}

func (a *azure) checksum(_ context.Context, o object) (checksum, error) { return o.sum, nil }

func explainAzure(_ int, header http.Header, body []byte) *statusError {
	var e struct{ Code, Message string }
	_ = xml.Unmarshal(body, &e) // without it the header or the status says it
	message, _, _ := strings.Cut(e.Message, "\n")
	return &statusError{code: cmp.Or(e.Code, header.Get("X-Ms-Error-Code")), message: message}
}
