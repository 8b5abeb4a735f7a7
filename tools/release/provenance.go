package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

const (
	sumsName       = "SHA256SUMS"
	provenanceName = "provenance.intoto.json"
	payloadType    = "application/vnd.in-toto+json"
	predicateType  = "https://slsa.dev/provenance/v1"
)

// sums writes the checksums of all files, in the form of sha256sum.
func (r *release) sums() error {
	list, err := listed(r.dist)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range list {
		sum, err := r.digest(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return r.put(sumsName, []byte(b.String()))
}

// listed returns the files of a release that have a checksum, in order.
func listed(dist string) (list []string, err error) {
	err = filepath.WalkDir(dist, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dist, path)
		if name = filepath.ToSlash(name); name != sumsName && name != provenanceName {
			list = append(list, name)
		}
		return err
	})
	slices.Sort(list)
	return list, err
}

// signer is a key of Ed25519 or ECDSA; one that only checks has no private part.
type signer struct {
	private crypto.Signer
	public  crypto.PublicKey
}

// readKey reads a private key, PKCS #8 in PEM, from a file or a text; nil without both.
func readKey(file, text string) (*signer, error) {
	from := "the variable NESO_RELEASE_KEY"
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		from, text = file, string(b)
	}
	if text == "" {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s: expected a private key of Ed25519 or ECDSA, PKCS #8 in PEM without a password", from)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return &signer{k, k.Public()}, nil
	case *ecdsa.PrivateKey:
		return &signer{k, k.Public()}, nil
	}
	return nil, fmt.Errorf("%s: expected a key of Ed25519 or ECDSA, got %T", from, key)
}

// Sign implements dsse.Signer.
func (s *signer) Sign(_ context.Context, data []byte) ([]byte, error) {
	if _, ok := s.public.(ed25519.PublicKey); ok {
		return s.private.Sign(rand.Reader, data, crypto.Hash(0))
	}
	sum := sha256.Sum256(data)
	return s.private.Sign(nil, sum[:], crypto.SHA256) // without randomness: the same bytes again
}

// Verify implements dsse.Verifier.
func (s *signer) Verify(_ context.Context, data, signature []byte) error {
	ok := false
	switch k := s.public.(type) {
	case ed25519.PublicKey:
		ok = ed25519.Verify(k, data, signature)
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(data)
		ok = ecdsa.VerifyASN1(k, sum[:], signature)
	}
	if !ok {
		return errors.New("the signature is not of this key")
	}
	return nil
}

// KeyID implements dsse.Signer and dsse.Verifier: the SHA-256 of the public key.
func (s *signer) KeyID() (string, error) {
	der, err := x509.MarshalPKIXPublicKey(s.public)
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), err
}

// Public implements dsse.Verifier.
func (s *signer) Public() crypto.PublicKey { return s.public }

// statement is one of in-toto, about the files of a release.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// predicate is SLSA's provenance, version 1.
type predicate struct {
	Definition struct {
		BuildType    string            `json:"buildType"`
		External     map[string]string `json:"externalParameters"`
		Dependencies []dependency      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	Details struct {
		Builder  map[string]string `json:"builder"`
		Metadata map[string]string `json:"metadata"`
	} `json:"runDetails"`
}

type dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

// provenance writes what the files were made of, signed, if there is a key.
func (r *release) provenance(s *signer) error {
	if s == nil {
		return os.RemoveAll(filepath.Join(r.dist, provenanceName)) // that of a release before
	}
	list, err := listed(r.dist)
	if err != nil {
		return err
	}
	st := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: predicateType}
	for _, name := range append(list, sumsName) {
		sum, err := r.digest(name)
		if err != nil {
			return err
		}
		st.Subject = append(st.Subject, subject{name, map[string]string{"sha256": sum}})
	}
	d := &st.Predicate.Definition
	d.BuildType = "https://github.com/nesoserve/neso/blob/main/docs/operate/packages.md"
	d.External = map[string]string{"version": r.version}
	d.Dependencies = []dependency{{"git+https://github.com/nesoserve/neso", map[string]string{"gitCommit": r.commit}}}
	st.Predicate.Details.Builder = map[string]string{"id": d.BuildType + "#make-release"}
	st.Predicate.Details.Metadata = map[string]string{"invocationId": r.commit, "startedOn": r.at.Format(time.RFC3339)}
	payload, err := json.Marshal(st)
	if err != nil {
		return err
	}
	envelopes, err := dsse.NewEnvelopeSigner(s)
	if err != nil {
		return err
	}
	envelope, err := envelopes.SignPayload(context.Background(), payloadType, payload)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(envelope, "", " ")
	if err != nil {
		return err
	}
	return r.put(provenanceName, append(text, '\n'))
}

// verifyDist checks that all files of a directory are those that a key has signed, and
// that none is beside them.
func verifyDist(dist, keyFile string) error {
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("%s: expected a public key in PEM", keyFile)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", keyFile, err)
	}
	st, err := opened(filepath.Join(dist, provenanceName), &signer{public: key})
	if err != nil {
		return fmt.Errorf("%s: %w", provenanceName, err)
	}
	r := release{dist: dist}
	signed := map[string]bool{}
	for _, s := range st.Subject {
		sum, err := r.digest(filepath.FromSlash(s.Name))
		if err != nil {
			return err
		}
		if sum != s.Digest["sha256"] {
			return fmt.Errorf("%s: SHA-256 %s, signed is %s", s.Name, sum, s.Digest["sha256"])
		}
		signed[s.Name] = true
	}
	list, err := listed(dist)
	for _, name := range list {
		if !signed[name] {
			err = errors.Join(err, fmt.Errorf("%s: is not in what was signed", name))
		}
	}
	return err
}

// opened reads a signed statement, and checks who signed it.
func opened(file string, s *signer) (*statement, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return nil, err
	}
	verifier, err := dsse.NewEnvelopeVerifier(s)
	if err != nil {
		return nil, err
	}
	if _, err := verifier.Verify(context.Background(), &envelope); err != nil {
		return nil, err
	}
	payload, err := envelope.DecodeB64Payload()
	if err != nil {
		return nil, err
	}
	var st statement
	if err := json.Unmarshal(payload, &st); err != nil {
		return nil, err
	}
	if envelope.PayloadType != payloadType || st.PredicateType != predicateType || len(st.Subject) == 0 {
		return nil, fmt.Errorf("expected %s with files, got %s", predicateType, st.PredicateType)
	}
	return &st, nil
}
