package blob

import (
	"context"
	"crypto/md5" //nolint:gosec // ETags of S3 are MD5 sums
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go/logging"
)

// emptySHA256 is the hash of the empty body that every request has.
const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// credentialTimeout bounds the search for credentials at start: off Amazon's
// machines their metadata service may not answer at all.
const credentialTimeout = 15 * time.Second

// s3 is a bucket of Amazon S3, or of a server that speaks its protocol.
type s3 struct {
	client
	endpoint    string // empty: Amazon's of the region
	bucket      string
	credentials aws.CredentialsProvider // nil: anonymous
	signer      *v4.Signer

	mu     sync.Mutex
	region string // may be corrected by the server
}

func openS3(ctx context.Context, p location, c *s3Credential, o Options) (*s3, error) {
	s := &s3{endpoint: p.endpoint, bucket: p.bucket, signer: v4.NewSigner()}
	s.client = client{http: o.http, pause: o.pause, prepare: s.sign, explain: explainS3}
	// What the SDK would print is in its errors too.
	options := []func(*config.LoadOptions) error{config.WithLogger(logging.Nop{})}
	if c == nil {
		c = &s3Credential{}
	} else if c.KeyID != "" || c.Profile == "" {
		// A file of credentials stands in for the environment.
		s.region = c.Region
		if c.KeyID != "" {
			s.credentials = credentials.NewStaticCredentialsProvider(c.KeyID, c.SecretKey, c.SessionToken)
		}
		return s, s.complete(o.getenv)
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	} else if region := o.getenv("AWS_DEFAULT_REGION"); region != "" {
		options = append(options, config.WithRegion(region))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	s.region, s.credentials = loaded.Region, loaded.Credentials
	if s.endpoint == "" && loaded.BaseEndpoint != nil {
		s.endpoint = strings.TrimSuffix(*loaded.BaseEndpoint, "/")
	}
	ctx, cancel := context.WithTimeout(ctx, credentialTimeout)
	defer cancel()
	if _, err := s.credentials.Retrieve(ctx); err != nil {
		s.credentials = nil // a public bucket needs none; another one says so
	}
	return s, s.complete(o.getenv)
}

func (s *s3) complete(getenv func(string) string) error {
	if s.region == "" {
		s.region = "us-east-1"
	}
	if e := getenv("AWS_ENDPOINT_URL_S3"); s.endpoint == "" && e != "" {
		s.endpoint = strings.TrimSuffix(e, "/")
	}
	if s.endpoint != "" {
		if u, err := url.Parse(s.endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("invalid endpoint " + s.endpoint)
		}
	}
	return nil
}

func (s *s3) sign(ctx context.Context, r *http.Request) error {
	r.Header.Set("X-Amz-Content-Sha256", emptySHA256)
	if s.credentials == nil {
		return nil
	}
	keys, err := s.credentials.Retrieve(ctx)
	if err != nil {
		return &credentialError{err}
	}
	return s.signer.SignHTTP(ctx, keys, r, emptySHA256, "s3", s.home(), time.Now(), func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = true
	})
}

func (s *s3) home() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.region
}

// moved takes the region that an error names; it reports whether that is news.
func (s *s3) moved(err error) bool {
	var e *statusError
	if !errors.As(err, &e) || e.region == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.region != e.region
	s.region = e.region
	return news
}

// url returns the address of an object, or of the bucket for "", in path style.
func (s *s3) url(key, query string) string {
	base := s.endpoint
	if base == "" {
		base = "https://s3." + s.home() + ".amazonaws.com"
		if strings.HasPrefix(s.home(), "cn-") {
			base += ".cn"
		}
	}
	base += "/" + escape(s.bucket, false)
	if key != "" {
		base += "/" + escape(key, true)
	}
	if query != "" {
		base += "?" + query
	}
	return base
}

type s3List struct {
	NextContinuationToken string
	IsTruncated           bool
	Contents              []struct {
		Key, ETag    string
		Size         int64
		LastModified time.Time
	}
	CommonPrefixes []struct{ Prefix string }
}

func (s *s3) list(ctx context.Context, prefix, token string, shallow bool, limit int) (listing, error) {
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}, "max-keys": {strconv.Itoa(limit)}}
	if token != "" {
		query.Set("continuation-token", token)
	}
	if shallow {
		query.Set("delimiter", "/")
	}
	encoded := strings.ReplaceAll(query.Encode(), "+", "%20")
	body, _, err := s.get(ctx, s.url("", encoded), nil)
	if s.moved(err) {
		body, _, err = s.get(ctx, s.url("", encoded), nil)
	}
	if err != nil {
		return listing{}, err
	}
	return parseS3List(body)
}

func parseS3List(body []byte) (listing, error) {
	var page s3List
	if err := xml.Unmarshal(body, &page); err != nil {
		return listing{}, errors.New("the store's listing is not what it should be: " + err.Error())
	}
	var l listing
	for _, c := range page.Contents {
		key, err := url.QueryUnescape(c.Key)
		if err != nil {
			return listing{}, errors.New("the store's listing has a name that cannot be decoded")
		}
		l.objects = append(l.objects, object{key: key, size: c.Size, etag: c.ETag, modified: c.LastModified})
	}
	for _, c := range page.CommonPrefixes {
		prefix, err := url.QueryUnescape(c.Prefix)
		if err != nil {
			return listing{}, errors.New("the store's listing has a name that cannot be decoded")
		}
		l.prefixes = append(l.prefixes, prefix)
	}
	if page.IsTruncated {
		l.next = page.NextContinuationToken
	}
	return l, nil
}

// read asks for the checksum beside the whole of an object: small files cost one
// request instead of two.
func (s *s3) read(ctx context.Context, o object, offset, length int64) (io.ReadCloser, error) {
	match := http.Header{"If-Match": {o.etag}}
	if offset > 0 || length != o.size {
		return s.open(ctx, s.url(o.key, ""), match, offset, length)
	}
	match.Set("X-Amz-Checksum-Mode", "ENABLED")
	resp, err := s.once(ctx, http.MethodGet, s.url(o.key, ""), match) //nolint:bodyclose // the caller closes it
	if err != nil {
		return nil, changed(err)
	}
	return &summed{resp.Body, s3Checksum(resp.Header, o.etag)}, nil
}

// checksum asks for the strongest sum that the store keeps. An ETag is the MD5
// sum of an object that was uploaded in one piece and not encrypted by a key of
// the customer's.
func (s *s3) checksum(ctx context.Context, o object) (checksum, error) {
	resp, err := s.do(ctx, http.MethodHead, s.url(o.key, ""), http.Header{"X-Amz-Checksum-Mode": {"ENABLED"}})
	if err != nil {
		return checksum{}, err
	}
	resp.Body.Close()
	return s3Checksum(resp.Header, o.etag), nil
}

func s3Checksum(h http.Header, etag string) checksum {
	if t := h.Get("X-Amz-Checksum-Type"); t == "" || t == "FULL_OBJECT" {
		for _, k := range []struct {
			name string
			make func() hash.Hash
		}{
			{"SHA256", sha256.New},
			{"SHA1", sha1.New},
			{"CRC64NVME", func() hash.Hash { return crc64.New(crc64NVME) }},
			{"CRC32C", func() hash.Hash { return crc32.New(castagnoli) }},
			{"CRC32", func() hash.Hash { return crc32.NewIEEE() }},
		} {
			if want, err := base64.StdEncoding.DecodeString(h.Get("X-Amz-Checksum-" + k.name)); err == nil && len(want) == k.make().Size() {
				return checksum{k.name, k.make, want}
			}
		}
	}
	tag, err := hex.DecodeString(strings.Trim(etag, `"`))
	sse := h.Get("X-Amz-Server-Side-Encryption")
	if err == nil && len(tag) == md5.Size && (sse == "" || sse == "AES256") && h.Get("X-Amz-Server-Side-Encryption-Customer-Algorithm") == "" {
		return checksum{"MD5", md5.New, tag}
	}
	return checksum{}
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	crc64NVME  = crc64.MakeTable(0x9a6c9329ac4bc9b5) // the reversed form of the polynomial
)

func explainS3(_ int, header http.Header, body []byte) *statusError {
	var e struct{ Code, Message, Region string }
	_ = xml.Unmarshal(body, &e) // without it the status says it
	if r := header.Get("X-Amz-Bucket-Region"); r != "" {
		e.Region = r
	}
	return &statusError{code: e.Code, message: e.Message, region: e.Region}
}
