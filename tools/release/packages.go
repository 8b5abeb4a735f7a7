package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the forms that nfpm.Get knows
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// maintainer stands in packages: nobody in particular.
const maintainer = "The Neso authors <neso@neso.invalid>"

const description = `inference server for models of any framework
Serves models over the KServe v2 protocol, HTTP/REST and gRPC: the wire
protocol, configurations, options and metrics of Triton Inference Server.
Python models need Python 3.9 or newer with numpy.`

// packages writes .deb and .rpm for each architecture.
func (r *release) packages() error {
	for _, arch := range []string{"amd64", "arm64"} {
		for _, form := range []string{"deb", "rpm"} {
			if err := r.pack(form, arch); err != nil {
				return fmt.Errorf("%s for %s: %w", form, arch, err)
			}
		}
	}
	return nil
}

func (r *release) pack(form, arch string) error {
	dir, err := os.MkdirTemp("", "neso-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	contents, err := r.contents(form, arch, dir)
	if err != nil {
		return err
	}
	systemd := func(name string) string { return filepath.Join(r.root, "deploy/systemd", name) }
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "neso", Arch: arch, Platform: "linux", Version: r.version, VersionSchema: "none",
		Section: "net", Priority: "optional", Maintainer: maintainer, Description: description,
		Homepage: "https://github.com/nesoserve/neso", MTime: r.at,
		Overridables: nfpm.Overridables{
			Contents: contents, Umask: 0o022,
			Scripts: nfpm.Scripts{PostInstall: systemd("postinst.sh"), PreRemove: systemd("prerm.sh"), PostRemove: systemd("postrm.sh")},
			// Which C library the program loads, and what most models are written in.
			Depends: map[string][]string{"deb": {"libc6 (>= 2.17)"}, "rpm": {"glibc >= 2.17"}}[form],
			Recommends: map[string][]string{
				"deb": {"python3 (>= 3.9)", "python3-numpy", "ca-certificates"}, "rpm": {"python3 >= 3.9", "python3-numpy", "ca-certificates"},
			}[form],
			RPM: nfpm.RPM{BuildHost: "neso.invalid", Group: "Applications/Internet", Summary: "Inference server for models of any framework"},
		},
	})
	if form == "rpm" { // Debian's control file has no field for a licence
		info.Release, info.License = "1", "Apache-2.0"
	}
	if err := nfpm.PrepareForPackager(info, form); err != nil {
		return err
	}
	packager, err := nfpm.Get(form)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return r.put(packager.ConventionalFileName(info), b.Bytes())
}

// contents are the files of a package. dir takes those that are made here.
func (r *release) contents(form, arch, dir string) (files.Contents, error) {
	list, err := r.shared()
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].name = "usr/" + list[i].name
		if list[i].name == "usr/"+completions["zsh"] && form == "deb" {
			list[i].name = "usr/share/zsh/vendor-completions/_neso" // Debian's place
		}
	}
	program, err := os.ReadFile(r.source(platform{"linux", arch}))
	if err != nil {
		return nil, err
	}
	unit, err := os.ReadFile(filepath.Join(r.root, "deploy/systemd/neso.service"))
	if err != nil {
		return nil, err
	}
	settings, err := os.ReadFile(filepath.Join(r.root, "deploy/systemd/neso.conf"))
	if err != nil {
		return nil, err
	}
	units := map[string]string{"deb": "lib/systemd/system/", "rpm": "usr/lib/systemd/system/"}[form]
	list = append(list,
		file{"usr/bin/neso", program, 0o755}, file{units + "neso.service", unit, 0o644}, file{"etc/neso/neso.conf", settings, 0o640})
	papers, err := r.papers(form)
	if err != nil {
		return nil, err
	}
	list = append(list, papers...)
	contents := files.Contents{directory("/etc/neso", r), directory("/var/lib/neso", r), directory("/var/lib/neso/models", r)}
	for i, f := range list {
		source := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(source, f.content, 0o600); err != nil {
			return nil, err
		}
		c := &files.Content{Source: source, Destination: "/" + f.name, FileInfo: r.info(fs.FileMode(f.mode))} //nolint:gosec // ours
		c.Type = kind(form, f.name)
		contents = append(contents, c)
	}
	return contents, nil
}

// kind is what a package says that a file is; "" for nothing.
func kind(form, name string) string {
	switch {
	case name == "etc/neso/neso.conf":
		return files.TypeConfigNoReplace
	case form == "rpm" && strings.HasPrefix(name, "usr/share/man/"):
		return files.TypeRPMDoc
	case form == "rpm" && strings.HasPrefix(name, "usr/share/licenses/"):
		return files.TypeRPMLicence
	}
	return ""
}

func (r *release) info(mode fs.FileMode) *files.ContentFileInfo {
	return &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.at}
}

func directory(name string, r *release) *files.Content {
	return &files.Content{Destination: name, Type: files.TypeDir, FileInfo: r.info(0o755)}
}

// overrides are what Debian's linter is told, with the reason.
const overrides = `# Secrets belong into it: only root reads it.
neso: non-standard-file-perm 0640 != 0644 [etc/neso/neso.conf]
# A static Go program: there is no C whose addresses would be hidden, and no table to protect.
neso: hardening-no-pie [usr/bin/neso]
neso: hardening-no-relro [usr/bin/neso]
# The package is made without debhelper.
neso: maintainer-script-calls-systemctl *
`

// papers are what distributions want beside a program.
func (r *release) papers(form string) ([]file, error) {
	if form == "rpm" {
		licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
		return []file{{"usr/share/licenses/neso/LICENSE", licence, 0o644}}, err
	}
	var changes bytes.Buffer
	entry := fmt.Sprintf("neso (%s) stable; urgency=medium\n\n  * https://github.com/nesoserve/neso/blob/main/CHANGELOG.md\n\n -- %s  %s\n",
		r.version, maintainer, r.at.Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	if err := compress(&changes, []byte(entry)); err != nil {
		return nil, err
	}
	rights := fmt.Sprintf(`Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: neso
Source: https://github.com/nesoserve/neso

Files: *
Copyright: %d The Neso authors
License: Apache-2.0
 On Debian systems the text of the licence is in /usr/share/common-licenses/Apache-2.0
`, r.at.Year())
	return []file{
		{"usr/share/lintian/overrides/neso", []byte(overrides), 0o644}, {"usr/share/doc/neso/changelog.gz", changes.Bytes(), 0o644},
		{"usr/share/doc/neso/copyright", []byte(rights), 0o644},
	}, nil
}
