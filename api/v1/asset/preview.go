package asset

import api "github.com/fermi-cluster/fermi/api/v1"

// AssetPreview is the beginning of a file.
type AssetPreview struct {
	Kind    string     `json:"kind" enum:"text,table,image,binary,empty"`
	Size    api.Bytes  `json:"size"`
	Cut     bool       `json:"cut,omitempty" doc:"There is more than is shown."`
	Text    string     `json:"text,omitempty"`
	Columns []string   `json:"columns,omitempty"`
	Rows    [][]string `json:"rows,omitempty"`
	Media   string     `json:"media,omitempty" enum:"image/png,image/jpeg,image/gif"`
	Width   int        `json:"width,omitempty"`
	Height  int        `json:"height,omitempty"`
	Image   string     `json:"image,omitempty" doc:"Its bytes in base64, of a picture of at most 4 MiB."`
}
