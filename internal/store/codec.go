package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	api "github.com/fermi-cluster/fermi/api/v1"
)

const (
	// noProject stands for "no project" in keys. It can't be a project: names are DNS labels.
	noProject = "_"
	// maxSegment bounds one part of a key.
	maxSegment = 253
	// maxValue leaves room under etcd's 1.5 MiB a request for the rest of a transaction.
	maxValue = 1 << 20
)

// tables are the table of kinds, both ways; programs may add rows to it before a store is made.
var tables = sync.OnceValue(func() (t struct {
	plurals map[api.Kind]string
	kinds   map[string]api.KindInfo
}) {
	t.plurals, t.kinds = map[api.Kind]string{}, map[string]api.KindInfo{}
	for _, row := range api.Kinds {
		t.plurals[row.Kind], t.kinds[row.Plural] = row.Plural, row
	}
	return t
})

// path is a key's name in etcd, without the prefix: <plural>/<project or _>/<name>.
func path(key api.Key) (string, error) {
	plural, ok := tables().plurals[key.Kind]
	if !ok {
		return "", fmt.Errorf("unknown kind %q", key.Kind)
	}
	project := key.Project
	if project == "" {
		project = noProject
	} else if project == noProject {
		return "", fmt.Errorf("project %q is not a name", project)
	}
	if err := segment("project", project); err != nil {
		return "", err
	}
	if err := segment("name", key.Name); err != nil {
		return "", err
	}
	return plural + "/" + project + "/" + key.Name, nil
}

func segment(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("the %s is empty", what)
	case len(s) > maxSegment:
		return fmt.Errorf("the %s has %d bytes; at most %d fit", what, len(s), maxSegment)
	case !utf8.ValidString(s), strings.ContainsAny(s, "/\x00"):
		return fmt.Errorf("the %s %q has characters that a key can't have", what, s)
	}
	return nil
}

// parsePath is the inverse of path. ok is false for anything that is not an object's key, such
// as election keys.
func parsePath(p string) (key api.Key, info api.KindInfo, ok bool) {
	plural, rest, ok1 := strings.Cut(p, "/")
	project, name, ok2 := strings.Cut(rest, "/")
	info, ok3 := tables().kinds[plural]
	if !ok1 || !ok2 || !ok3 || segment("project", project) != nil || segment("name", name) != nil {
		return api.Key{}, api.KindInfo{}, false
	}
	if project == noProject {
		project = ""
	}
	return api.Key{Kind: info.Kind, Project: project, Name: name}, info, true
}

// encode is an object's value in etcd. The revision is not part of it: it is etcd's own.
func encode(o api.Object) ([]byte, error) {
	m := o.GetMeta()
	revision := m.Revision
	m.Revision = 0
	defer func() { m.Revision = revision }()
	return json.Marshal(o)
}

// decode reads a value that was found under key. An object under a foreign key is refused: the
// cache would give it a second identity.
func decode(key api.Key, info api.KindInfo, value []byte, revision int64) (api.Object, error) {
	o := info.New()
	if err := unmarshal(value, o); err != nil {
		return nil, err
	}
	if got := api.KeyOf(o); got != key {
		return nil, fmt.Errorf("the object says that it is %s", got)
	}
	o.GetMeta().Revision = revision
	return o, nil
}

// Clone is a private deep copy.
func Clone[T api.Object](o T) T {
	raw, err := json.Marshal(o)
	if err != nil {
		panic("store: an object that can't be written down: " + err.Error())
	}
	c := api.MustInfo(o.Kind()).New()
	if err := unmarshal(raw, c); err != nil {
		panic("store: an object that can't be read back: " + err.Error())
	}
	return c.(T)
}
