package conf

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fermi-cluster/fermi/internal/fault"
	"github.com/fermi-cluster/fermi/internal/pattern"
)

var namedFolder = pattern.New(`^([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)=(/.*?)(:ro)?$`)

// system are the folders that no project may be granted, nor anything that has one of them in it. What lies in them may be granted.
var system = []string{"/", "/tmp", "/var/tmp", "/dev/shm"}

// kernel are folders of which nothing may be granted.
var kernel = []string{"/proc", "/sys", "/dev"}

// folders refuses names that are none, and folders whose grant would give the machine away.
func (s *Settings) folders() []fault.Field {
	var out []fault.Field
	add := func(en, zh string, args ...any) {
		out = append(out, fault.Field{Path: "folder", Message: fault.T(en, zh, args...)})
	}
	names := map[string]bool{}
	for _, text := range s.Folders {
		m := namedFolder.FindStringSubmatch(text)
		if m == nil || filepath.Clean(m[2]) != m[2] {
			add("%s is not NAME=PATH or NAME=PATH:ro with an absolute path, such as team=/data/team.", "%s 不是 NAME=PATH 或 NAME=PATH:ro 的形式（PATH 为绝对路径），例如 team=/data/team。", strconv.Quote(text))
			continue
		}
		if names[m[1]] {
			add("The name %s stands twice.", "名称 %s 重复。", m[1])
		}
		names[m[1]] = true
		place := realOf(m[2])
		for _, dir := range system {
			if place == dir || within(dir, place) {
				add("%s is, or has in it, %s, which no project may have.", "%s 是或包含 %s，不能授予任何项目。", strconv.Quote(m[2]), dir)
				break
			}
		}
		for _, dir := range kernel {
			if place == dir || within(place, dir) {
				add("%s lies in %s, which no project may have.", "%s 位于 %s 中，不能授予任何项目。", strconv.Quote(m[2]), dir)
			}
		}
		for _, own := range []string{s.Data, s.Shared} {
			if own = realOf(own); own != "" && (own == place || within(own, place) || within(place, own)) {
				add("%s and the data folder %s lie in each other; a project that was granted it would see Fermi's own files.", "%s 与数据目录 %s 相互包含；获授该目录的项目将能看到 Fermi 自身的文件。", strconv.Quote(m[2]), strconv.Quote(own))
				break
			}
		}
	}
	return out
}

// within says that a path lies below another.
func within(p, dir string) bool {
	return strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") && p != dir
}

// realOf is an absolute path without links, as far as it is there.
func realOf(p string) string {
	if p == "" {
		return ""
	}
	if abs, err := filepath.Abs(p); err == nil {
		p = abs
	}
	if real, err := filepath.EvalSymlinks(p); err == nil {
		return real
	}
	if dir := filepath.Dir(p); dir != p {
		return filepath.Join(realOf(dir), filepath.Base(p))
	}
	return p
}
