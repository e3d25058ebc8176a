module github.com/haulier/haulier/bench

go 1.26.0

require github.com/haulier/haulier v0.0.0

require google.golang.org/protobuf v1.36.12 // indirect

replace github.com/haulier/haulier => ../
