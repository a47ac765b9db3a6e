# REML by lme4, for tests/test_reml.py and tests/golden/reml/make.py.
#
#   Rscript fit.R export NAME TABLE.csv         write one of lme4's own data sets
#   Rscript fit.R fit TABLE.csv FORMULA OUT     write the estimates as JSON
#
# Every column of a table other than the response is a factor.

suppressMessages(library(lme4))

number <- function(x) sprintf("%.17g", x)

# A search without derivatives stops where rounding of the criterion hides its slope:
# at InstEval's 73,421 scores (rounding 1e-8) a flat component stays 2e-4 off. Newton's
# method on differences of lme4's own criterion, over steps so wide that rounding does
# not matter (4 and 8 % of a scale, extrapolated to none), takes it to the optimum.
newton <- function(criterion, theta, wide = 0.04) {
  inside <- which(theta > 0.01)
  at <- function(shift) {
    moved <- theta
    moved[inside] <- theta[inside] * exp(shift)
    criterion(moved)
  }
  unit <- function(i, by) replace(numeric(length(inside)), i, by)
  slope <- function(i, by) (at(unit(i, by)) - at(unit(i, -by))) / (2 * by)
  for (round in 1:2) {
    k <- seq_along(inside)
    gradient <- vapply(k, function(i) (4 * slope(i, wide) - slope(i, 2 * wide)) / 3, 0)
    centre <- at(numeric(length(k)))
    hessian <- matrix(0, length(k), length(k))
    for (i in k) for (j in k[k <= i]) {
      value <- if (i == j) {
        (at(unit(i, wide)) + at(unit(i, -wide)) - 2 * centre) / wide^2
      } else {
        (at(unit(i, wide) + unit(j, wide)) - at(unit(i, wide) - unit(j, wide)) -
          at(unit(j, wide) - unit(i, wide)) + at(-unit(i, wide) - unit(j, wide))) / (4 * wide^2)
      }
      hessian[i, j] <- hessian[j, i] <- value
    }
    theta[inside] <- theta[inside] * exp(-solve(hessian, gradient))
  }
  theta
}

export <- function(name, path) {
  held <- new.env()
  data(list = name, package = "lme4", envir = held)
  write.csv(held[[name]], path, row.names = FALSE, quote = TRUE)
}

fit <- function(path, formula, out) {
  formula <- as.formula(formula)
  response <- all.vars(formula)[1]
  table <- read.csv(path, colClasses = "character", na.strings = character(0))
  for (name in setdiff(names(table), response)) table[[name]] <- factor(table[[name]])
  table[[response]] <- as.numeric(table[[response]])
  # Absolute tolerances are set to zero: at their defaults of 1e-8 they would stop
  # the search before the relative ones do.
  control <- lmerControl(
    optimizer = "nloptwrap", calc.derivs = FALSE, check.conv.singular = "ignore",
    optCtrl = list(
      ftol_rel = 1e-15, xtol_rel = 1e-12, ftol_abs = 0, xtol_abs = 0, maxeval = 100000L
    )
  )
  made <- lmer(formula, table, REML = TRUE, control = control)
  components_of <- function(made) {
    found <- as.data.frame(VarCorr(made))
    paste(sprintf('    "%s": %s', found$grp, number(found$vcov)), collapse = ",\n")
  }
  searched <- made
  if (any(getME(made, "theta") > 0.01)) {
    parts <- lFormula(formula, table, REML = TRUE, control = control)
    criterion <- do.call(mkLmerDevfun, parts)
    theta <- newton(criterion, getME(made, "theta"))
    optimum <- list(par = theta, fval = criterion(theta), feval = NA, conv = 0)
    # On small tables the search is the more exact of the two.
    if (optimum$fval < criterion(getME(made, "theta"))) {
      criterion(theta)
      made <- mkMerMod(environment(criterion), optimum, parts$reTrms, parts$fr)
    }
  }
  writeLines(c(
    "{",
    sprintf('  "formula": "%s",', paste(deparse(formula, width.cutoff = 500L), collapse = " ")),
    sprintf('  "n": %d,', nrow(table)),
    sprintf('  "intercept": %s,', number(fixef(made)[[1]])),
    sprintf('  "reml_criterion": %s,', number(REMLcrit(made))),
    '  "variance": {', components_of(made), "  },",
    '  "variance_before_newton": {', components_of(searched), "  },",
    sprintf('  "r": "%s.%s",', R.version$major, R.version$minor),
    sprintf('  "lme4": "%s"', packageVersion("lme4")),
    "}"
  ), out)
}

words <- commandArgs(trailingOnly = TRUE)
if (words[1] == "export") export(words[2], words[3]) else fit(words[2], words[3], words[4])
