// Command release writes what `make release` gives to users: archives, packages of
// Debian and RPM, a Homebrew formula, winget manifests, checksums, and, with a key,
// signed provenance. It stands in a module of its own, so that the server depends on
// nothing of it. Open this file first, then archives.go, packages.go, recipes.go,
// provenance.go.
//
// The same programs, version and time give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// release is what is written, and of what.
type release struct {
	version, commit, url string
	at                   time.Time
	programs, texts      string // directories: neso-OS-ARCH; completions, helps and SBOMs
	root, dist           string // the repository; where everything goes
}

// platform is one that programs are built for.
type platform struct{ os, arch string }

// platforms are those of a release. That of musl has no C library, and opens none.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"musl", "amd64"}, {"musl", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

func (p platform) String() string { return p.os + "-" + p.arch }

// program is the name of the program in archives.
func (p platform) program() string {
	if p.os == "windows" {
		return "neso.exe"
	}
	return "neso"
}

// source is the file of the program.
func (r *release) source(p platform) string {
	return filepath.Join(r.programs, "neso-"+p.String()+filepath.Ext(p.program()))
}

// versions is what every form of package takes for a version: it begins with a number,
// and a hyphen in it would separate something.
var versions = regexp.MustCompile(`^\d+(\.\d+)*([.+~][0-9A-Za-z]+)*$`)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func command(args []string) error {
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	r := release{}
	seconds := f.Int64("time", 0, "the time of everything, in seconds since 1970")
	key := f.String("key", "", "a file with a private key that signs; default the variable NESO_RELEASE_KEY, which has the key itself")
	verify := f.String("verify", "", "check a directory with the file of a public key, and write nothing")
	f.StringVar(&r.version, "version", "", "such as 0.2.0 or 0.1.0+79.g54416d38")
	f.StringVar(&r.commit, "commit", "", "of which it is made")
	f.StringVar(&r.url, "url", "", "where the files will be; default the project's releases")
	f.StringVar(&r.programs, "programs", "", "the directory of the programs")
	f.StringVar(&r.texts, "texts", "", "the directory of completions, helps and lists")
	f.StringVar(&r.root, "root", ".", "the repository")
	f.StringVar(&r.dist, "dist", "dist", "where everything goes")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *verify != "" {
		return verifyDist(r.dist, *verify)
	}
	r.at = time.Unix(*seconds, 0).UTC()
	if !versions.MatchString(r.version) {
		return fmt.Errorf("expected a version such as 0.2.0 or 0.1.0+79.g54416d38, got %q", r.version)
	}
	if r.url == "" {
		r.url = "https://github.com/nesoserve/neso/releases/download/v" + strings.ReplaceAll(r.version, "+", "%2B")
	}
	signer, err := readKey(*key, os.Getenv("NESO_RELEASE_KEY"))
	if err != nil {
		return err
	}
	return r.write(signer)
}

// write makes everything, the checksums last.
func (r *release) write(s *signer) error {
	if err := os.MkdirAll(r.dist, 0o755); err != nil { //nolint:gosec // for everybody
		return err
	}
	steps := []func() error{r.lists, r.archives, r.packages, r.formula, r.winget, r.sums, func() error { return r.provenance(s) }}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if s == nil {
		fmt.Fprintln(os.Stderr, "release: no key, no provenance")
	}
	return nil
}

// lists copies the SBOM of each program.
func (r *release) lists() error {
	for _, p := range platforms {
		text, err := os.ReadFile(filepath.Join(r.texts, p.String()+".spdx.json"))
		if err == nil {
			err = r.put(fmt.Sprintf("neso-%s-%s.spdx.json", r.version, p), text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put writes a file of the release.
func (r *release) put(name string, text []byte) error {
	file := filepath.Join(r.dist, name)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)) //nolint:gosec // for everybody
}
