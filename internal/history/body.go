package history

import (
	"encoding/json"
	"fmt"

	"github.com/klauspost/compress/s2"

	api "github.com/fermi-cluster/fermi/api/v1"
	"github.com/fermi-cluster/fermi/internal/fault"
)

// maxBody bounds an archived object's JSON, before and after compression.
const maxBody = 4 << 20

// PackObject is an archived object as adapters keep it: compressed JSON. It needs an id.
func PackObject(o api.Object) ([]byte, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	m := o.GetMeta()
	if len(body) > maxBody {
		return nil, fault.New(fault.TooLarge, "ObjectTooLarge", fault.T(
			"%s is too large to be archived.", "%s 过大，无法归档。", m.Name))
	}
	if m.ID == "" {
		return nil, fault.New(fault.Invalid, "NoID", fault.T("%s has no id.", "%s 没有 id。", m.Name))
	}
	return s2.Encode(nil, body), nil // ten times as fast as zstd on a kilobyte, which is what they are
}

// UnpackObject is the way back.
func UnpackObject(kind api.Kind, packed []byte) (api.Object, error) {
	info, ok := api.InfoOf(kind)
	if !ok {
		return nil, fmt.Errorf("archived object of unknown kind %q", kind)
	}
	if n, err := s2.DecodedLen(packed); err != nil || n > maxBody {
		return nil, fmt.Errorf("archived object of %d bytes: %w", n, err)
	}
	body, err := s2.Decode(nil, packed)
	if err != nil {
		return nil, fmt.Errorf("archived object: %w", err)
	}
	o := info.New()
	if err := json.Unmarshal(body, o); err != nil {
		return nil, fmt.Errorf("archived object: %w", err)
	}
	return o, nil
}
