package room

import "strings"

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
