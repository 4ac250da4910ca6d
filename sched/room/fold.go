package room

import api "github.com/fermi-cluster/fermi/api/v1"

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
	return api.FoldDevice(deviceType)
}
