module crew

go 1.26
