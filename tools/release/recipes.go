package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// digest returns the SHA-256 of a file of the release.
func (r *release) digest(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(r.dist, name))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// address is where a file of the release will be.
func (r *release) address(name string) string {
	return r.url + "/" + strings.ReplaceAll(name, "+", "%2B")
}

// formula writes what Homebrew installs from.
func (r *release) formula() error {
	var b strings.Builder
	b.WriteString("# typed: strict\n# frozen_string_literal: true\n\n")
	fmt.Fprintf(&b, "class Neso < Formula\n  desc \"Inference server for models of any framework\"\n"+
		"  homepage \"https://github.com/nesoserve/neso\"\n  version %q\n  license \"Apache-2.0\"\n", r.version)
	for _, system := range []struct{ brew, os string }{{"macos", "darwin"}, {"linux", "linux"}} {
		fmt.Fprintf(&b, "\n  on_%s do\n", system.brew)
		for i, cpu := range []struct{ brew, arch string }{{"arm", "arm64"}, {"intel", "amd64"}} {
			name := r.archive(platform{system.os, cpu.arch})
			sum, err := r.digest(name)
			if err != nil {
				return err
			}
			if i > 0 {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "    on_%s do\n      url %q\n      sha256 %q\n    end\n", cpu.brew, r.address(name), sum)
		}
		b.WriteString("  end\n")
	}
	b.WriteString(`
  def install
    bin.install "neso"
    man1.install "share/man/man1/neso.1.gz"
    bash_completion.install "share/bash-completion/completions/neso"
    zsh_completion.install "share/zsh/site-functions/_neso"
    fish_completion.install "share/fish/vendor_completions.d/neso.fish"
  end

  test do
    assert_match "neso", shell_output("#{bin}/neso --help 2>&1", 0).downcase
  end
end
`)
	return r.put("homebrew/neso.rb", []byte(b.String()))
}

const wingetID = "Nesoserve.Neso"

// winget writes the three manifests that Windows's package manager installs from.
func (r *release) winget() error {
	head := fmt.Sprintf("PackageIdentifier: %s\nPackageVersion: %q\n", wingetID, r.version)
	foot := func(kind string) string { return "ManifestType: " + kind + "\nManifestVersion: 1.6.0\n" }
	var installers strings.Builder
	for _, cpu := range []struct{ winget, arch string }{{"x64", "amd64"}, {"arm64", "arm64"}} {
		p := platform{"windows", cpu.arch}
		sum, err := r.digest(r.archive(p))
		if err != nil {
			return err
		}
		fmt.Fprintf(&installers, "  - Architecture: %s\n    NestedInstallerFiles:\n"+
			"      - RelativeFilePath: neso-%s-%s\\neso.exe\n        PortableCommandAlias: neso\n"+
			"    InstallerUrl: %s\n    InstallerSha256: %s\n", cpu.winget, r.version, p, r.address(r.archive(p)), strings.ToUpper(sum))
	}
	for name, text := range map[string]string{
		"": head + "DefaultLocale: en-US\n" + foot("version"),
		".installer": head + "InstallerType: zip\nNestedInstallerType: portable\n" +
			"ReleaseDate: " + r.at.Format("2006-01-02") + "\nInstallers:\n" +
			installers.String() + foot("installer"),
		".locale.en-US": head + "PackageLocale: en-US\nPublisher: The Neso authors\nPackageName: Neso\n" +
			"PackageUrl: https://github.com/nesoserve/neso\n" +
			"License: Apache-2.0\nShortDescription: Inference server for models of any framework\n" +
			"Tags:\n  - inference\n  - machine-learning\n" + foot("defaultLocale"),
	} {
		if err := r.put("winget/"+wingetID+name+".yaml", []byte(text)); err != nil {
			return err
		}
	}
	return nil
}
