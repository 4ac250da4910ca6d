package service

import (
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/fermi-cluster/fermi/api/v1/serving"
	"github.com/fermi-cluster/fermi/internal/cli"
)

// contract are the flags that say where a service is asked and what its questions look like.
type contract struct{ path, format, schema string }

func (c *contract) bind(f *pflag.FlagSet) {
	f.StringVar(&c.path, "path", "", cli.Both("what replicas are asked for at the service's address alone, such as /v2/models/m/infer", "访问服务地址本身时转到副本的路径，如 /v2/models/m/infer"))
	f.StringVar(&c.format, "format", "", cli.Both("openai, kserve-v2 or json: what questions look like; others are answered 400; none: nothing is checked", "请求格式：openai、kserve-v2 或 json，不符者返回 400；none 表示不检查"))
	f.StringVar(&c.schema, "schema", "", cli.Both("file with a JSON Schema that questions fit, as JSON or YAML; none: there is none", "请求须符合的 JSON Schema 文件（JSON 或 YAML）；none 表示没有"))
}

const none = "none"

// into puts what was given into a spec.
func (c *contract) into(s *serving.ServiceSpec) error {
	if c.path != "" {
		s.Path = c.path
	}
	switch c.schema {
	case "":
	case none:
		s.Schema = nil
	default:
		raw, err := os.ReadFile(c.schema)
		if err != nil {
			return wrong("--schema", "The file can't be read: %v.", "无法读取文件：%v。", err)
		}
		var schema map[string]any
		if err := yaml.Unmarshal(raw, &schema); err != nil || schema == nil {
			return wrong("--schema", "%s is no JSON Schema: it holds no object.", "%s 不是 JSON Schema：内容不是对象。", c.schema)
		}
		s.Schema = schema
	}
	switch c.format {
	case "":
	case none:
		s.Format, s.Schema = "", nil
	default:
		s.Format = serving.Format(c.format)
	}
	return nil
}
