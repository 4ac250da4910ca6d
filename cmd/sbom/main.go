package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	binary := flag.String("binary", "bin/fermi", "the binary")
	lock := flag.String("lock", "web/package-lock.json", "lock file of the console; \"\" is none")
	version := flag.String("version", "dev", "version of the product")
	out := flag.String("out", "bin/fermi.cdx.json", "file to write")
	flag.Parse()
	n, err := run(*binary, *lock, *version, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %d components\n", *out, n)
}

func run(binary, lock, version, out string) (int, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return 0, err
	}
	parts := modules(info)
	if lock != "" {
		more, err := packages(lock)
		if err != nil {
			return 0, err
		}
		parts = append(parts, more...)
	}
	f, err := os.CreateTemp(filepath.Dir(out), ".sbom-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	enc := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON)
	err = errors.Join(enc.SetPretty(true).EncodeVersion(document(info, version, parts), cdx.SpecVersion1_6), f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return 0, err
	}
	return len(parts), os.Rename(f.Name(), out)
}

// document is the whole, with everything below the one product.
func document(info *debug.BuildInfo, version string, parts []cdx.Component) *cdx.BOM {
	slices.SortFunc(parts, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
	ref := "pkg:golang/" + info.Main.Path + "@" + url.PathEscape(version)
	refs := make([]string, len(parts))
	for i, p := range parts {
		refs[i] = p.BOMRef
	}
	bom := cdx.NewBOM()
	// Of the content, so that the same inputs give the same bytes; with the bits of a random UUID.
	sum := sha256.Sum256([]byte(ref + "\n" + strings.Join(refs, "\n")))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: "fermi", Version: version, PackageURL: ref,
	}}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: ref, Dependencies: &refs}}
	return bom
}

// modules are what the linker put in, and the Go library.
func modules(info *debug.BuildInfo) []cdx.Component {
	std := "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")
	out := []cdx.Component{{BOMRef: std, Type: cdx.ComponentTypeLibrary, Name: "stdlib", Version: info.GoVersion, PackageURL: std}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := "pkg:golang/" + m.Path + "@" + url.PathEscape(m.Version)
		c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl, Scope: cdx.ScopeRequired}
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(raw) == sha256.Size {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
		out = append(out, c)
	}
	return out
}

// packages are those of the console: what is in its files, and (excluded) what only builds and tests them.
func packages(lock string) ([]cdx.Component, error) {
	raw, err := os.ReadFile(lock)
	if err != nil {
		return nil, err
	}
	var file struct {
		Version  int `json:"lockfileVersion"`
		Packages map[string]struct {
			Name      string `json:"name"`
			Version   string `json:"version"`
			Integrity string `json:"integrity"`
			License   any    `json:"license"`
			Dev       bool   `json:"dev"`
			Link      bool   `json:"link"`
		} `json:"packages"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", lock, err)
	}
	if file.Version < 2 {
		return nil, fmt.Errorf("%s is of version %d; 2 or later is needed", lock, file.Version)
	}
	seen := map[string]bool{}
	var out []cdx.Component
	for path, p := range file.Packages {
		_, name, found := cutLast(path, "node_modules/")
		if p.Name != "" {
			name = p.Name
		}
		if path == "" || p.Link || !found {
			continue // ourselves
		}
		purl := "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + url.PathEscape(p.Version)
		scope := cdx.ScopeRequired
		if p.Dev {
			scope = cdx.ScopeExcluded
		}
		if seen[purl] {
			if i := slices.IndexFunc(out, func(c cdx.Component) bool { return c.BOMRef == purl }); !p.Dev {
				out[i].Scope = scope
			}
			continue
		}
		seen[purl] = true
		c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: p.Version, PackageURL: purl, Scope: scope}
		if algo, sum, ok := strings.Cut(p.Integrity, "-"); ok && algo == "sha512" {
			if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
				c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(raw)}}
			}
		}
		if license, ok := p.License.(string); ok && license != "" {
			c.Licenses = &cdx.Licenses{{Expression: license}}
		}
		out = append(out, c)
	}
	return out, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
