"""Our policies: the posterior given everything released."""
