package image

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/mail"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Package is a piece of software that an image holds.
type Package struct {
	Name, Version string
	// Kind is that of package URLs: golang, pypi, deb.
	Kind string
	// License is an SPDX expression, "" if it is not known.
	License string
	// Architecture is that of a deb.
	Architecture string
}

// SBOMDir is where images of ours keep their lists, a file a layer.
const SBOMDir = "usr/share/sbom"

// SBOM returns the list of packages as an SPDX 2.3 document in JSON, the same bytes for
// the same packages.
func SBOM(title string, at time.Time, packages []Package) ([]byte, error) {
	packages = slices.Clone(packages)
	slices.SortFunc(packages, func(a, b Package) int {
		return strings.Compare(a.Kind+"/"+a.Name+"@"+a.Version, b.Kind+"/"+b.Name+"@"+b.Version)
	})
	packages = slices.Compact(packages)
	doc := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: title,
		Created:  creation{Created: at.UTC().Format(time.RFC3339), Creators: []string{"Tool: neso"}},
		Packages: []spdxPackage{},
	}
	for i, p := range packages {
		id := fmt.Sprintf("SPDXRef-%s-%s-%d", p.Kind, notID.ReplaceAllString(p.Name, "-"), i)
		license := p.License
		if license == "" {
			license = "NOASSERTION"
		}
		doc.Packages = append(doc.Packages, spdxPackage{
			ID: id, Name: p.Name, Version: p.Version, Location: "NOASSERTION", Concluded: "NOASSERTION", License: license,
			Copyright: "NOASSERTION", References: []reference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: p.url()}},
		})
		doc.Relations = append(doc.Relations, relation{From: doc.ID, Kind: "DESCRIBES", To: id})
	}
	content, err := json.Marshal(doc.Packages)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(content)
	doc.Namespace = "https://neso.invalid/spdx/" + url.PathEscape(title) + "-" + hex.EncodeToString(digest[:16])
	text, err := json.MarshalIndent(doc, "", " ")
	return append(text, '\n'), err
}

// notID is what an identifier of SPDX may not have.
var notID = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// url returns the package URL.
func (p *Package) url() string {
	name, query := p.Name, ""
	switch p.Kind {
	case "deb":
		name = "debian/" + name
		query = "?arch=" + url.QueryEscape(p.Architecture)
	case "pypi":
		name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = escape(parts[i])
	}
	return "pkg:" + p.Kind + "/" + strings.Join(parts, "/") + "@" + escape(p.Version) + query
}

// escape writes a part of a package URL, in which a plus sign is not itself.
func escape(part string) string { return strings.ReplaceAll(url.PathEscape(part), "+", "%2B") }

// GoPackages returns the modules of which a Go program was made: the standard library,
// its own, those it needs.
func GoPackages(file string) ([]Package, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	list := []Package{{Kind: "golang", Name: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go"), License: "BSD-3-Clause"}}
	if info.Main.Path == "" {
		return nil, fmt.Errorf("%s: a Go program that does not say of which module it is", file)
	}
	list = append(list, Package{Kind: "golang", Name: info.Main.Path, Version: info.Main.Version})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, Package{Kind: "golang", Name: m.Path, Version: m.Version})
	}
	return list, nil
}

// mostMetadata bounds what is read of the file that describes a Python package.
const mostMetadata = 1 << 20

// PythonPackages returns the Python packages whose descriptions lie in the tree, and
// which of the tree's paths say so.
func (t *Tree) PythonPackages() ([]Package, error) {
	var list []Package
	for _, name := range t.names() {
		if path.Base(name) != "METADATA" || !strings.HasSuffix(path.Dir(name), ".dist-info") {
			continue
		}
		e := t.entries[name]
		r, err := e.open()
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(r, mostMetadata))
		_ = r.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		p, err := describe(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, p)
	}
	return list, nil
}

// describe reads the headers of a Python package's description.
func describe(text []byte) (Package, error) {
	head, _, _ := bytes.Cut(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
	m, err := mail.ReadMessage(bytes.NewReader(append(head, "\n\n"...)))
	if err != nil {
		return Package{}, fmt.Errorf("expected the headers of a Python package: %w", err)
	}
	p := Package{Kind: "pypi", Name: m.Header.Get("Name"), Version: m.Header.Get("Version"), License: m.Header.Get("License-Expression")}
	if p.Name == "" || p.Version == "" {
		return Package{}, fmt.Errorf("expected the headers Name and Version, got %q and %q", p.Name, p.Version)
	}
	return p, nil
}

type (
	document struct {
		Version   string        `json:"spdxVersion"`
		License   string        `json:"dataLicense"`
		ID        string        `json:"SPDXID"`
		Name      string        `json:"name"`
		Namespace string        `json:"documentNamespace"`
		Created   creation      `json:"creationInfo"`
		Packages  []spdxPackage `json:"packages"`
		Relations []relation    `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID         string      `json:"SPDXID"`
		Name       string      `json:"name"`
		Version    string      `json:"versionInfo"`
		Location   string      `json:"downloadLocation"`
		Analyzed   bool        `json:"filesAnalyzed"`
		Concluded  string      `json:"licenseConcluded"`
		License    string      `json:"licenseDeclared"`
		Copyright  string      `json:"copyrightText"`
		References []reference `json:"externalRefs"`
	}
	reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relation struct {
		From string `json:"spdxElementId"`
		Kind string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)
