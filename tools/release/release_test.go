package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const version = "0.2.0+7.gabc"

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// keys writes a pair of keys.
func keys(t *testing.T, private, public any) (privateFile, publicFile string) {
	t.Helper()
	a, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return write(t, filepath.Join(dir, "key"), text("PRIVATE KEY", a)), write(t, filepath.Join(dir, "pub"), text("PUBLIC KEY", b))
}

// made writes a release of small programs, and returns its directory.
func made(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range platforms {
		name := "neso-" + p.String() + filepath.Ext(p.program())
		write(t, filepath.Join(dir, "programs", name), "program of "+p.String())
		write(t, filepath.Join(dir, "texts", p.String()+".spdx.json"), "{}")
	}
	for _, name := range []string{"completion.bash", "completion.zsh", "completion.fish", "help.txt", "help-serve.txt"} {
		write(t, filepath.Join(dir, "texts", name), ".a line with a \\ and a -\n")
	}
	dist := filepath.Join(dir, "dist")
	all := append([]string{
		"-version", version, "-commit", "abc", "-time", "1700000000", "-root", "../..",
		"-programs", filepath.Join(dir, "programs"), "-texts", filepath.Join(dir, "texts"), "-dist", dist,
	}, args...)
	if err := command(all); err != nil {
		t.Fatal(err)
	}
	return dist
}

func contents(t *testing.T, dist string) map[string]string {
	t.Helper()
	all := map[string]string{}
	list, err := listed(dist)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(list, sumsName) {
		b, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}

func TestTheSameIsTheSame(t *testing.T) {
	first, second := contents(t, made(t)), contents(t, made(t))
	if len(first) != 8+8+4+1+3+1 {
		t.Errorf("%d files", len(first))
	}
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("%s: other bytes", name)
		}
	}
	// Recipes have the digests that the sums have.
	sums := first[sumsName]
	for _, line := range strings.Split(strings.TrimSpace(sums), "\n") {
		sum, name, _ := strings.Cut(line, "  ")
		recipe := first["homebrew/neso.rb"]
		if strings.HasSuffix(name, ".zip") {
			recipe, sum = first["winget/Nesoserve.Neso.installer.yaml"], strings.ToUpper(sum)
		} else if !strings.HasSuffix(name, ".tar.gz") || strings.Contains(name, "musl") {
			continue
		}
		if !strings.Contains(recipe, sum) || !strings.Contains(recipe, "/v0.2.0%2B7.gabc/"+strings.ReplaceAll(name, "+", "%2B")) {
			t.Errorf("%s %s is not in\n%s", sum, name, recipe)
		}
	}
}

func TestAnArchiveHasTheProgram(t *testing.T) {
	b := contents(t, made(t))["neso-"+version+"-darwin-arm64.tar.gz"]
	z, err := gzip.NewReader(strings.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(z).Next()
	if err != nil || h.Name != "neso-"+version+"-darwin-arm64/neso" || h.Mode != 0o755 || h.ModTime.Unix() != 1700000000 {
		t.Error(h, err)
	}
}

// TestPackages asks the tools of the distributions, where they are.
func TestPackages(t *testing.T) {
	dist := made(t)
	for _, tt := range []struct {
		command string
		want    []string
	}{
		{"dpkg-deb -c neso_" + version + "_amd64.deb", []string{"-rwxr-xr-x root/root", "./usr/bin/neso", "./lib/systemd/system/neso.service",
			"-rw-r----- root/root", "./etc/neso/neso.conf", "./var/lib/neso/models/", "./usr/share/man/man1/neso.1.gz"}},
		{"dpkg-deb -f neso_" + version + "_arm64.deb", []string{"Architecture: arm64", "Version: " + version, "libc6 (>= 2.17)"}},
		{"dpkg-deb --ctrl-tarfile neso_" + version + "_arm64.deb", []string{"/etc/neso/neso.conf", "try-restart"}},
		{"rpm -qplv neso-" + version + "-1.aarch64.rpm", []string{"/usr/bin/neso", "/usr/lib/systemd/system/neso.service"}},
		{"rpm -qpi neso-" + version + "-1.x86_64.rpm", []string{"Architecture: x86_64", "License     : Apache-2.0"}},
		{"ruby -c homebrew/neso.rb", []string{"Syntax OK"}},
	} {
		args := strings.Fields(tt.command)
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Logf("not checked: this machine has no %s", args[0])
			continue
		}
		c := exec.CommandContext(t.Context(), args[0], args[1:]...)
		c.Dir = dist
		out, err := c.CombinedOutput()
		for _, want := range tt.want {
			if err != nil || !bytes.Contains(out, []byte(want)) {
				t.Errorf("%s: %v, without %q:\n%s", tt.command, err, want, out)
			}
		}
	}
}

func TestProvenance(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, another := keys(t, curve, curve.Public())
	for _, k := range []struct{ private, public any }{{private, public}, {curve, curve.Public()}} {
		key, pub := keys(t, k.private, k.public)
		dist := made(t, "-key", key)
		check := func(pub string) error { return command([]string{"-verify", pub, "-dist", dist}) }
		if err := check(pub); err != nil {
			t.Fatal(err)
		}
		if pub != another && k.public != curve.Public() {
			if err := check(another); err == nil {
				t.Error("another key is as good")
			}
		}
		extra := write(t, filepath.Join(dist, "extra"), "x")
		if err := check(pub); err == nil || !strings.Contains(err.Error(), "extra: is not in what was signed") {
			t.Error(err)
		}
		if err := os.Remove(extra); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dist, "homebrew/neso.rb"), "other")
		if err := check(pub); err == nil || !strings.Contains(err.Error(), "homebrew/neso.rb: SHA-256") {
			t.Error(err)
		}
	}
}

func TestWhatIsNoRelease(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, _ := keys(t, weak, weak.Public())
	text := write(t, filepath.Join(t.TempDir(), "text"), "no key")
	for want, args := range map[string][]string{
		"expected a version such as":    {"-version", "0.1.0-79-gabc"},
		"expected a private key":        {"-version", "1", "-key", text},
		"expected a key of Ed25519":     {"-version", "1", "-key", rsaKey},
		"expected a public key in PEM":  {"-verify", text},
		"no such file or directory":     {"-version", "1", "-programs", t.TempDir(), "-texts", t.TempDir(), "-dist", t.TempDir()},
		"flag provided but not defined": {"-x"},
		"nowhere: no such file":         {"-verify", "nowhere"},
	} {
		if err := command(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want ... %s", args, err, want)
		}
	}
}

// TestLinters: what the registries' own linters say of the packages, where they are
// installed (Debian: lintian, rpmlint with rpm, rubocop).
func TestLinters(t *testing.T) {
	if os.Getenv("NESO_FULL") == "" {
		t.Skip("NESO_FULL=1 runs the linters of the packages, half a minute")
	}
	dist := made(t)
	style := write(t, filepath.Join(t.TempDir(), "rubocop.yml"), `AllCops:
  NewCops: enable
  SuggestExtensions: false
Style/StringLiterals:
  EnforcedStyle: double_quotes
Style/Documentation:
  Enabled: false
`)
	about := func(name string) string { return filepath.Join(dist, name) }
	for _, c := range []struct {
		command []string
		// meant is what is said of the small programs of the test, or is meant so.
		meant []string
	}{
		{[]string{
			"lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", "executable-not-elf-or-script",
			about("neso_" + version + "_amd64.deb"),
		}, nil},
		{[]string{"rpmlint", about("neso-" + version + "-1.x86_64.rpm")}, []string{
			"non-readable /etc/neso/neso.conf 640", "no-signature", "no-changelogname-tag", "no-binary", "executable-marked-as-config",
		}},
		{[]string{"rubocop", "-c", style, about("homebrew/neso.rb")}, nil},
	} {
		t.Run(c.command[0], func(t *testing.T) {
			if _, err := exec.LookPath(c.command[0]); err != nil {
				t.Skip(err)
			}
			out, err := exec.Command(c.command[0], c.command[1:]...).CombinedOutput() //nolint:gosec // the test's own
			if c.meant == nil {
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			if !strings.Contains(string(out), "1 packages and 0 specfiles checked") {
				t.Skipf("it does not run here: %s", out)
			}
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, ": E: ") && !slices.ContainsFunc(c.meant, func(m string) bool { return strings.Contains(line, m) }) {
					t.Error(line)
				}
			}
		})
	}
}
