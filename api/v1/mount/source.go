package mount

// Source is where the bytes of a version by reference lie.
type Source struct {
	Folder string    `json:"folder,omitempty" maxLength:"4096" doc:"A folder of the machines that the project was granted: NAME, or NAME/path in one."`
	S3     *S3Source `json:"s3,omitempty"`
}

// S3Source is a prefix of a bucket.
type S3Source struct {
	Endpoint string `json:"endpoint,omitempty" maxLength:"512" doc:"URL of the server; that of the secret when absent, AWS's own where that has none."`
	Region   string `json:"region,omitempty" maxLength:"64" doc:"That of the secret when absent, us-east-1 where that has none."`
	Bucket   string `json:"bucket" maxLength:"63"`
	Prefix   string `json:"prefix,omitempty" maxLength:"512" doc:"All of the bucket when absent."`
	Secret   string `json:"secret" doc:"A secret of type s3 of the project."`
}

// Buckets are the sources of refs that lie in buckets.
func Buckets(refs []AssetRef) (out []*S3Source) {
	for i := range refs {
		if s := refs[i].Source; s != nil && s.S3 != nil {
			out = append(out, s.S3)
		}
	}
	return out
}
