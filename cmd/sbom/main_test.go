package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const lockFile = "../../web/package-lock.json"

// TestEveryModuleIsInIt: of this test's own binary, and of the shipped one where it was built.
func TestEveryModuleIsInIt(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binaries := []string{own}
	if _, err := os.Stat("../../bin/fermi"); err == nil {
		binaries = append(binaries, "../../bin/fermi")
	}
	for _, binary := range binaries {
		out := filepath.Join(t.TempDir(), "fermi.cdx.json")
		n, err := run(binary, lockFile, "v1.2.3", out)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		var bom cdx.BOM
		if err := cdx.NewBOMDecoder(bytes.NewReader(raw), cdx.BOMFileFormatJSON).Decode(&bom); err != nil || bom.SpecVersion != cdx.SpecVersion1_6 || len(*bom.Components) != n {
			t.Fatalf("%v, %v", bom.SpecVersion, err)
		}
		has := map[string]cdx.Component{}
		for _, c := range *bom.Components {
			if _, twice := has[c.Name+"@"+c.Version]; twice {
				t.Errorf("%s twice", c.BOMRef)
			}
			has[c.Name+"@"+c.Version] = c
		}
		info, err := buildinfo.ReadFile(binary)
		if err != nil || len(info.Deps) == 0 {
			t.Fatalf("%d modules, %v", len(info.Deps), err)
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if c, ok := has[m.Path+"@"+m.Version]; !ok || c.Hashes == nil || c.PackageURL == "" {
				t.Errorf("%s %s is not in it, or without its hash", m.Path, m.Version)
			}
		}
		if _, ok := has["stdlib@"+info.GoVersion]; !ok {
			t.Error("the Go library is not in it")
		}
		var lock struct {
			Packages map[string]struct{ Version string }
		}
		lockRaw, err := os.ReadFile(lockFile)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(lockRaw, &lock); err != nil {
			t.Fatal(err)
		}
		for path, p := range lock.Packages {
			if _, name, ok := cutLast(path, "node_modules/"); ok && has[name+"@"+p.Version].Name == "" {
				t.Errorf("%s %s of the console is not in it", name, p.Version)
			}
		}
		if react := has["react@"+lock.Packages["node_modules/react"].Version]; react.Scope != cdx.ScopeRequired || react.Hashes == nil {
			t.Errorf("%+v", react)
		}
		again := filepath.Join(t.TempDir(), "again")
		if _, err := run(binary, lockFile, "v1.2.3", again); err != nil {
			t.Fatal(err)
		}
		if second, err := os.ReadFile(again); err != nil || !bytes.Equal(raw, second) {
			t.Error("the same inputs gave other bytes")
		}
	}
}
