module github.com/nesoserve/neso

go 1.26
