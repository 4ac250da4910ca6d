package cgroup

import (
	"path"
	"slices"
	"strings"
)

// hierarchy is one mounted tree of cgroups and where we stand in it.
type hierarchy struct {
	controllers []string // version 1: as mounted; version 2: empty, the folder says
	unified     bool
	mount       string // folder of the highest cgroup that can be seen
	own         string // folder of our own cgroup, mount or below it
}

const maxHierarchies = 64 // a kernel has 13 controllers; more lines are not ours to believe

// parseHierarchies reads /proc/self/mountinfo and /proc/self/cgroup. Lines that it cannot read are
// skipped: what is not understood is not used.
func parseHierarchies(mountinfo, self string) []hierarchy {
	own := parseSelf(self)
	var out []hierarchy
	for line := range strings.Lines(mountinfo) {
		if len(out) == maxHierarchies {
			break
		}
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		if !ok {
			continue
		}
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 6 || len(r) < 3 {
			continue
		}
		root, mount := unescape(l[3]), unescape(l[4])
		if !path.IsAbs(mount) || path.Clean(mount) != mount {
			continue
		}
		h := hierarchy{mount: mount}
		switch r[0] {
		case "cgroup2":
			h.unified = true
			h.own = below(mount, root, own[""])
		case "cgroup":
			for opt := range strings.SplitSeq(r[2], ",") {
				if where, ok := own[opt]; ok && opt != "" {
					h.controllers = append(h.controllers, opt)
					h.own = below(mount, root, where)
				}
			}
			if len(h.controllers) == 0 {
				continue
			}
		default:
			continue
		}
		out = append(out, h)
	}
	return out
}

// parseSelf reads "4:memory:/a" and "0::/b" into controller → path; the unified tree is "".
func parseSelf(self string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(self) {
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(part) != 3 || !strings.HasPrefix(part[2], "/") || len(own) >= maxHierarchies {
			continue
		}
		for c := range strings.SplitSeq(part[1], ",") {
			own[c] = part[2]
		}
	}
	return own
}

// below is the folder of cgroup own in a mount that shows the tree from root on. A path outside
// the mount (another namespace) is taken as the mount itself: the nearest that we can see.
func below(mount, root, own string) string {
	if strings.HasPrefix(root, "/..") {
		root = "/"
	}
	if own == root || own == "" {
		return mount
	}
	rest := own
	if root != "/" {
		var ok bool
		if rest, ok = strings.CutPrefix(own, root+"/"); !ok {
			return mount
		}
	}
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return mount
	}
	return path.Join(mount, rest)
}

// unescape turns mountinfo's octal \040 into what it stands for.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && isOctal(s[i+1:i+4]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func isOctal(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '7' })
}

// ancestors are the folders from the mount down to our own, both included.
func (h hierarchy) ancestors() []string {
	dirs := []string{h.own}
	for d := h.own; d != h.mount && len(d) > len(h.mount); {
		d = path.Dir(d)
		dirs = append(dirs, d)
	}
	slices.Reverse(dirs)
	return dirs
}
