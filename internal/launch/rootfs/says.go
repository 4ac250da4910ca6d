package rootfs

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Says is what an image says about processes in it.
type Says struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Dir        string   `json:"dir,omitempty"`   // a folder in it; "": none that is there
	User       *User    `json:"user,omitempty"`  // nil: root
	Ports      []string `json:"ports,omitempty"` // such as 8000/tcp
}

// User is who an image wants its processes to be, by its own files.
type User struct {
	Named   string `json:"named"` // as it says
	Name    string `json:"name,omitempty"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Groups  []int  `json:"groups,omitempty"`
	Unknown bool   `json:"unknown,omitempty"` // its files don't know it
}

const (
	maxUserFile  = 1 << 20
	maxUserLine  = 16 << 10
	maxGroups    = 64
	maxPorts     = 64
	maxDirLength = 4096
)

// hear reads what an image says about processes in it; root is where it lies, or is about to.
func hear(c v1.Config, root string) (*Says, error) {
	says := &Says{Entrypoint: c.Entrypoint, Cmd: c.Cmd}
	size := 0
	for _, word := range slices.Concat(c.Entrypoint, c.Cmd) {
		if strings.ContainsRune(word, 0) {
			return nil, errors.New("its command has a NUL byte")
		}
		size += len(word)
	}
	if size > maxAbout || len(c.WorkingDir) > maxDirLength || strings.ContainsRune(c.WorkingDir, 0) {
		return nil, errors.New("its command or working directory is too long")
	}
	for port := range c.ExposedPorts {
		if len(port) <= 16 && len(says.Ports) < maxPorts {
			says.Ports = append(says.Ports, port)
		}
	}
	slices.Sort(says.Ports)
	in, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if dir := path.Clean("/" + c.WorkingDir); dir != "/" {
		if info, err := in.Stat(dir[1:]); err == nil && info.IsDir() {
			says.Dir = dir
		}
	}
	says.User = userOf(in, c.User)
	return says, nil
}

// makeDir makes an image's working directory where no layer has it, as other engines do.
func makeDir(c v1.Config, root string) error {
	dir := path.Clean("/" + c.WorkingDir)
	if dir == "/" || len(dir) > maxDirLength || strings.ContainsRune(dir, 0) {
		return nil
	}
	in, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer in.Close()
	_ = in.MkdirAll(dir[1:], 0o755) // a link or a file in the way: hear says that there is none
	return nil
}

// userOf looks a user up as `name`, `uid`, `name:group` or `uid:gid` in an image's own files; nil is root.
func userOf(in *os.Root, named string) *User {
	if named == "" || len(named) > 256 {
		return nil
	}
	who, group, _ := strings.Cut(named, ":")
	u := &User{Named: named, Name: who}
	uid, err := strconv.Atoi(who)
	u.UID, u.Unknown = uid, err != nil || uid < 0
	eachLine(in, "etc/passwd", 4, func(f []string) bool {
		id, bad := strconv.Atoi(f[2])
		gid, worse := strconv.Atoi(f[3])
		if bad != nil || worse != nil || id < 0 || gid < 0 || f[0] != who && (err != nil || id != uid) {
			return true
		}
		u.Name, u.UID, u.GID, u.Unknown = f[0], id, gid, false
		return false
	})
	if group != "" {
		gid, err := strconv.Atoi(group)
		found := err == nil && gid >= 0
		eachLine(in, "etc/group", 3, func(f []string) bool {
			if id, bad := strconv.Atoi(f[2]); f[0] == group && bad == nil && id >= 0 {
				gid, found = id, true
				return false
			}
			return true
		})
		u.GID, u.Unknown = max(gid, 0), u.Unknown || !found
	} else {
		eachLine(in, "etc/group", 4, func(f []string) bool {
			if id, bad := strconv.Atoi(f[2]); bad == nil && id >= 0 && id != u.GID && slices.Contains(strings.Split(f[3], ","), u.Name) {
				u.Groups = append(u.Groups, id)
			}
			return len(u.Groups) < maxGroups
		})
	}
	if u.UID == 0 && !u.Unknown {
		return nil
	}
	return u
}

// eachLine goes through the lines of a file of an image that have so many fields at least, until f says false. A file that is not there has none.
func eachLine(in *os.Root, name string, fields int, f func([]string) bool) {
	file, err := in.Open(name)
	if err != nil {
		return
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	lines := bufio.NewScanner(io.LimitReader(file, maxUserFile))
	lines.Buffer(nil, maxUserLine)
	for lines.Scan() {
		if parts := strings.Split(strings.TrimSuffix(lines.Text(), "\r"), ":"); len(parts) >= fields && !f(parts) {
			return
		}
	}
}
