package v1

import (
	"encoding/json"
	"reflect"

	"github.com/fermi-cluster/fermi/internal/fault"
)

// MaxObject is the most bytes an object may have as JSON: etcd refuses 1.5 MiB, and a status
// must still fit beside the spec.
const MaxObject = 1 << 20

// Prepare makes an object ready to be stored: fills what was left out (defaults, the project,
// name from displayName and displayName from name), then refuses what is not acceptable with
// every field at once. random answers with n lower-case letters and digits.
func Prepare(o Object, random func(n int) string) error {
	var f faults
	if o == nil || reflect.ValueOf(o).IsNil() {
		return fault.New(fault.Invalid, "BadManifest", fault.T("There is no object.", "对象为空。"))
	}
	if d, ok := o.(Defaulter); ok {
		d.Default()
	}
	info := MustInfo(o.Kind())
	m := o.GetMeta()
	if info.Project && m.Project == "" {
		m.Project = DefaultProject
	}
	switch {
	case m.Name == "" && m.DisplayName == "":
		f.add("metadata.name", "Give the object a name, or a displayName from which one is made.", "请填写 name，或填写 displayName 由系统生成名称。")
	case m.Name == "":
		m.Name = MakeNameFor(o.Kind(), m.DisplayName, random)
	case m.DisplayName == "":
		m.DisplayName = m.Name
	}
	f.meta(m, info)
	if v, ok := o.(Validator); ok {
		for _, field := range v.Validate() {
			f.Put(field.Path, "InvalidField", field.Message)
		}
	}
	if err := f.err(); err != nil {
		return err
	}
	return fits(o)
}

func fits(o Object) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fault.New(fault.Invalid, "BadManifest", fault.T("The object cannot be written as JSON.", "对象无法写成 JSON。")).Because(err)
	}
	if len(data) > MaxObject {
		return fault.New(fault.TooLarge, "ObjectTooLarge", fault.T(
			"The object has %d bytes; at most %d are allowed. Put large values into files of the code archive.",
			"对象大小为 %d 字节，上限为 %d 字节。请把较大的内容放入代码包中的文件。", len(data), MaxObject))
	}
	return nil
}
