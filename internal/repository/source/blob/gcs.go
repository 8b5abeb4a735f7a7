package blob

import (
	"context"
	"crypto/md5" //nolint:gosec // the store keeps MD5 sums
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

const gcsScope = "https://www.googleapis.com/auth/devstorage.read_only"

// gcs is a bucket of Google Cloud Storage, over its JSON interface.
type gcs struct {
	client
	endpoint string
	bucket   string
	tokens   oauth2.TokenSource // nil: anonymous
}

// openGCS takes the credentials of file, or for "" those of the environment:
// the file that GOOGLE_APPLICATION_CREDENTIALS names, those of gcloud, the
// machine's, or none.
func openGCS(ctx context.Context, p location, file string, fromFile bool, o Options) (*gcs, error) {
	g := &gcs{endpoint: "https://storage.googleapis.com", bucket: p.bucket}
	g.client = client{http: o.http, pause: o.pause, prepare: g.authorize, explain: explainGCS}
	// Token sources ask with the client that their context names.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, o.http)
	switch emulator := o.getenv("STORAGE_EMULATOR_HOST"); {
	case emulator != "":
		if !strings.Contains(emulator, "://") {
			emulator = "http://" + emulator
		}
		g.endpoint = strings.TrimSuffix(emulator, "/")
	case fromFile && file != "":
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		g.tokens, err = gcsTokens(ctx, text)
		if err != nil {
			return nil, err
		}
	case !fromFile:
		found, err := google.FindDefaultCredentials(ctx, gcsScope)
		if err == nil {
			g.tokens = found.TokenSource
		} else if o.getenv("GOOGLE_APPLICATION_CREDENTIALS") != "" {
			return nil, err
		}
	}
	return g, nil
}

func gcsTokens(ctx context.Context, text []byte) (oauth2.TokenSource, error) {
	var kind struct {
		Type google.CredentialsType `json:"type"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, errors.New("the credentials are not JSON")
	}
	found, err := google.CredentialsFromJSONWithType(ctx, text, kind.Type, gcsScope)
	if err != nil {
		return nil, err
	}
	return found.TokenSource, nil
}

func (g *gcs) authorize(_ context.Context, r *http.Request) error {
	if g.tokens == nil {
		return nil
	}
	token, err := g.tokens.Token()
	if err != nil {
		return &credentialError{err}
	}
	token.SetAuthHeader(r)
	return nil
}

type gcsList struct {
	NextPageToken string    `json:"nextPageToken"`
	Prefixes      []string  `json:"prefixes"`
	Items         []gcsItem `json:"items"`
}

type gcsItem struct {
	Name       string    `json:"name"`
	Size       string    `json:"size"` // a number that JSON cannot hold
	ETag       string    `json:"etag"`
	Generation string    `json:"generation"`
	Updated    time.Time `json:"updated"`
	MD5        string    `json:"md5Hash"`
	CRC32C     string    `json:"crc32c"`
}

func (g *gcs) list(ctx context.Context, prefix, token string, shallow bool, limit int) (listing, error) {
	query := url.Values{"prefix": {prefix}, "maxResults": {strconv.Itoa(limit)}}
	if token != "" {
		query.Set("pageToken", token)
	}
	if shallow {
		query.Set("delimiter", "/")
	}
	body, _, err := g.get(ctx, g.endpoint+"/storage/v1/b/"+escape(g.bucket, false)+"/o?"+query.Encode(), nil)
	if err != nil {
		return listing{}, err
	}
	return parseGCSList(body)
}

func parseGCSList(body []byte) (listing, error) {
	var page gcsList
	if err := json.Unmarshal(body, &page); err != nil {
		return listing{}, errors.New("the store's listing is not what it should be: " + err.Error())
	}
	l := listing{prefixes: page.Prefixes, next: page.NextPageToken}
	for _, i := range page.Items {
		size, err := strconv.ParseInt(i.Size, 10, 64)
		if err != nil && i.Size != "" {
			return listing{}, errors.New("the store's listing has a size that is no number")
		}
		o := object{key: i.Name, size: size, etag: i.ETag, version: i.Generation, modified: i.Updated}
		if o.version != "" {
			o.etag = "generation " + o.version // an ETag changes with the metadata too
		}
		if want, err := base64.StdEncoding.DecodeString(i.MD5); err == nil && len(want) == md5.Size {
			o.sum = checksum{"MD5", md5.New, want}
		} else if want, err := base64.StdEncoding.DecodeString(i.CRC32C); err == nil && len(want) == crc32.Size {
			o.sum = checksum{"CRC32C", func() hash.Hash { return crc32.New(castagnoli) }, want}
		}
		l.objects = append(l.objects, o)
	}
	return l, nil
}

func (g *gcs) read(ctx context.Context, o object, offset, length int64) (io.ReadCloser, error) {
	query := "?alt=media"
	if o.version != "" {
		query += "&generation=" + url.QueryEscape(o.version)
	}
	return g.open(ctx, g.endpoint+"/storage/v1/b/"+escape(g.bucket, false)+"/o/"+escape(o.key, false)+query, nil, offset, length)
}

func (g *gcs) checksum(_ context.Context, o object) (checksum, error) { return o.sum, nil }

func explainGCS(_ int, _ http.Header, body []byte) *statusError {
	var e struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &e) // without it the status says it
	s := &statusError{code: "GCS error", message: e.Error.Message}
	if len(e.Error.Errors) > 0 {
		s.code = e.Error.Errors[0].Reason
	}
	if s.message == "" {
		s.code = ""
	}
	return s
}
