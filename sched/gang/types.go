package gang

import "strings"

// Types numbers device types in the order in which they were first seen. The zero value knows none.
type Types struct {
	ids   map[string]uint16 // by name as first written, and folded
	names []string
}

// TypeID is the number of a device type that some node has or had; ok is false when none did.
func (t *Types) TypeID(name string) (id uint16, ok bool) {
	if id, ok = t.ids[name]; !ok { // not as nodes write it
		id, ok = t.ids[Fold(name)]
	}
	return id, ok
}

// TypeName is a type as the first node that had it wrote it.
func (t *Types) TypeName(id uint16) string { return t.names[id] }

// TypeNames are all of them; the caller changes nothing.
func (t *Types) TypeNames() []string { return t.names }

// Intern is the number of a type, which is known from now on.
func (t *Types) Intern(name string) uint16 {
	if id, ok := t.TypeID(name); ok {
		return id
	}
	if t.ids == nil {
		t.ids = map[string]uint16{}
	}
	id := uint16(len(t.names))
	t.ids[name], t.ids[Fold(name)] = id, id
	t.names = append(t.names, name)
	return id
}

// Fold makes device types comparable: "Ascend 910", "ascend-910" and "ASCEND910" are one.
func Fold(deviceType string) string {
	plain := true
	for i := 0; i < len(deviceType) && plain; i++ {
		c := deviceType[i]
		plain = c != ' ' && c != '-' && c != '_' && (c < 'A' || c > 'Z')
	}
	if plain {
		return deviceType
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-' || r == '_':
			return -1
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, deviceType)
}
